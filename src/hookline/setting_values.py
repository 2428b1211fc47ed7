"""The types that settings have and how each is written: durations, sizes, lists, addresses."""

from __future__ import annotations

import ipaddress
import json
import re
import types
from collections.abc import Sequence
from typing import Any, Literal, NewType, get_args, get_origin

Seconds = NewType("Seconds", float)
Bytes = NewType("Bytes", int)
Networks = NewType("Networks", tuple[str, ...])
Urls = NewType("Urls", tuple[str, ...])
Names = NewType("Names", tuple[str, ...])

DAY_SECONDS = 86_400.0
SECONDS_MAX = 36_500 * DAY_SECONDS
BYTES_MAX = 1 << 60
"""Of a setting: what is computed with it stays a number that a database has."""


def parse_as(raw: object, kind: Any) -> Any:
    """Return what was written, as a value of a setting's type; raise ValueError or TypeError that says what to
    write."""
    if get_origin(kind) is types.UnionType:  # the only unions are `str | None`
        return None if raw is None or raw == "" else str(raw)
    if get_origin(kind) is Literal:
        if raw not in get_args(kind):
            raise ValueError(f"write one of {', '.join(get_args(kind))}")
        return raw
    if kind is Seconds:
        if not 0 <= (seconds := parse_duration(raw)) <= SECONDS_MAX:  # type: ignore[arg-type]
            raise ValueError("write a duration from 0s to 36500d")
        return seconds
    if kind is Bytes:
        if not 0 <= (size := parse_size(raw)) <= BYTES_MAX:  # type: ignore[arg-type]
            raise ValueError("write a size from 0 to 1048576TB")
        return size
    if kind is Networks:
        return Networks(tuple(str(ipaddress.ip_network(item, strict=False)) for item in _parse_list(raw)))
    if kind is Names:
        return Names(_parse_list(raw))
    if kind is Urls:
        return Urls(_parse_list(raw))
    if kind is bool:
        return _parse_bool(raw)
    if kind in (int, float):
        return _parse_number(raw, kind)
    if not isinstance(raw, str):
        raise ValueError("write text")
    return raw


def parse_duration(text: str | int | float) -> Seconds:
    """``250ms``, ``5s``, ``10m``, ``4h``, ``30d`` or a bare number of seconds, as seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return Seconds(float(text))
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", str(text))
    if match is None:
        raise ValueError("write a duration such as 250ms, 5s, 10m, 4h or 30d")
    scale = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": DAY_SECONDS, None: 1}[match[2]]
    return Seconds(float(match[1]) * scale)


def parse_size(text: str | int) -> Bytes:
    """``512``, ``64KB``, ``500MB``, ``2GB`` (powers of 1024), as bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        return Bytes(text)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB)?\s*", str(text), re.IGNORECASE)
    if match is None:
        raise ValueError("write a size such as 64KB, 500MB or 2GB")
    scale = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}[(match[2] or "B").upper()]
    return Bytes(int(float(match[1]) * scale))


def parse_listen(text: str) -> tuple[str, int]:
    """``host:port`` (or ``[v6]:port``) as a pair; port 0 means any free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise ValueError("write an address such as 127.0.0.1:8080")
    return host.strip("[]") or "0.0.0.0", int(port)


def _parse_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise ValueError("write true or false")


def _parse_number(raw: object, kind: type[int] | type[float]) -> int | float:
    whole = "whole " if kind is int else ""
    try:
        return kind(str(raw))  # so that 2.9 and true are no whole numbers
    except ValueError:
        raise ValueError(f"write a {whole}number") from None


def _parse_list(raw: object) -> tuple[str, ...]:
    items: Sequence[object]
    if isinstance(raw, str):
        text = raw.strip()
        items = json.loads(text) if text.startswith("[") else [part for part in text.split(",") if part.strip()]
    elif isinstance(raw, list | tuple | None):
        items = raw or ()
    else:
        raise ValueError("write a list")
    return tuple(str(item).strip() for item in items)
