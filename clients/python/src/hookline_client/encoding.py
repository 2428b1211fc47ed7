"""From a message to its bytes, once: compact JSON in UTF-8 that the service takes.

What JSON has no word for is written as what it most likely means: times in ISO 8601, Decimals, fractions and numpy's
numbers as numbers, its arrays as lists, UUIDs and enums as their value, sets as lists, proxies as what they stand for,
Django's lazy texts as text, NaN and the infinities as null. Anything else is null too, with a line in the log.
"""

from __future__ import annotations

import json
import json.encoder as encoder
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

from hookline_client.errors import CODES, InvalidCall
from hookline_client.log import logger
from hookline_client.timestamps import timestamp

NESTING_LEVELS_MAX = 100
"""The service takes 128, the batch around a message included; deeper things are refused here."""
INTEGER_DIGITS_MAX = 19
"""A whole Decimal with more of them is written as a float."""

NUMPY_TIMES = "mM"
"""The kinds of numpy's arrays of times, whose numbers say nothing without their unit."""

_UNKNOWN = object()


def encode(message: dict[str, Any], strict: bool = False) -> bytes:
    """Return the bytes of a message; InvalidCall when it is circular or too deep, or, if ``strict``, not JSON."""
    try:
        body = _write(message).encode()
        # As many brackets are seldom: only then is it worth finding out how deep they stand.
        if body.count(b"{") + body.count(b"[") <= NESTING_LEVELS_MAX:
            return body
        _cleaned(message, strict, 0)
        return body
    except (TypeError, ValueError, RecursionError):
        cleaned = _cleaned(message, strict, 0)
    try:
        return _write(cleaned).encode()
    except UnicodeEncodeError:
        # ASCII here, which can take three times the bytes: half of a surrogate pair has an escape, but no UTF-8.
        return json.dumps(cleaned, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: object) -> Any:
    """What JSON can say of a value that it has no word for, ``_UNKNOWN`` when that is nothing."""
    try:
        return _meant(value)
    except Exception:  # noqa: BLE001 - the program's own code: a proxy whose request is over, what only seems iterable
        return _UNKNOWN


def _meant(value: object) -> Any:
    # JSON has a word for a string and a bool: this is a proxy for one, such as LocalProxy of werkzeug. Like what Django
    # translates later, it has the length and the letters of a string too.
    if isinstance(value, str) or _is(value, "django.utils.functional", "Promise"):
        return str(value)
    if isinstance(value, bool) or _is(value, "numpy", "bool_"):
        return bool(value)
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, date):
        return timestamp(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    if _is(value, "decimal", "Decimal"):
        return _number(value)
    if _is(value, "uuid", "UUID") or _is(value, "pathlib", "PurePath"):
        return str(value)
    if _is(value, "enum", "Enum"):
        return value.value  # type: ignore[attr-defined]  # an Enum
    if _is(value, "numbers", "Real") and not _is(value, "numpy", "timedelta64"):  # a number of what, nobody would know
        return _real(value)
    if _is(value, "numpy", "ndarray") and value.dtype.kind not in NUMPY_TIMES:  # type: ignore[attr-defined]
        return value.tolist()  # type: ignore[attr-defined]  # of no dimension it is a value and no list
    if isinstance(value, Iterable) and hasattr(value, "__len__"):
        return list(value)
    return _UNKNOWN


def _plain_or_raise(value: object) -> Any:
    plain = _plain(value)
    if plain is _UNKNOWN:
        raise TypeError(f"not JSON: {type(value).__name__}")
    return plain


def _is(value: object, module: str, name: str) -> bool:
    # Whoever holds such a value has imported its module; we need not.
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name, ()))  # none while another thread imports it


def _time(value: datetime) -> str | None:
    try:
        return timestamp(value)
    except InvalidCall:
        # In UTC it is in no year, as datetime.max west of it; and what does not equal itself is a table's empty cell.
        return value.isoformat(timespec="milliseconds") if value == value else None


def _number(value: Any) -> int | float | None:
    if not value.is_finite():
        return None
    # By its digits: the arithmetic of Decimals can raise, and an integer with a million of them takes seconds to make.
    return int(value) if value.adjusted() < INTEGER_DIGITS_MAX and value == value.to_integral_value() else float(value)


def _real(value: Any) -> int | float | None:
    try:
        return int(value) if _is(value, "numbers", "Integral") else float(value)
    except OverflowError:  # a fraction beyond all floats
        return None


def _cleaned(value: object, strict: bool, level: int) -> Any:
    if level > NESTING_LEVELS_MAX:
        raise InvalidCall("not_serialisable", CODES["not_serialisable"])
    if value is None or _is_truly(value, str, bool):
        return value
    if isinstance(value, int) and _is_truly(value, int):
        return value if _is_writable(value) else None
    if isinstance(value, float) and _is_truly(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict) and _is_truly(value, dict):
        return {_key(key): _cleaned(item, strict, level + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and _is_truly(value, list, tuple):
        return [_cleaned(item, strict, level + 1) for item in value]
    plain = _plain(value)
    if plain is not _UNKNOWN:
        return _cleaned(plain, strict, level + 1)
    if strict:
        raise InvalidCall("not_serialisable", f"A value of type {type(value).__name__} cannot be written as JSON.")
    logger().warning("a value of type %s cannot be written as JSON; null is sent instead", type(value).__name__)
    return None


def _is_truly(value: object, *kinds: type) -> bool:
    """Return False also for a proxy: its class says that it is one of them, and json takes none."""
    return issubclass(type(value), kinds)


def _is_writable(value: int) -> bool:
    try:
        return bool(int.__repr__(value))
    except ValueError:  # Python refuses to write one of thousands of digits, which takes long
        return False


def _key(key: object) -> str:
    if isinstance(key, str) and _is_truly(key, str):
        return key
    plain = key if _is_truly(key, int, float, bool, type(None)) else _plain(key)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain) if isinstance(plain, (int, float, bool, type(None))) else str(key)


def _writer() -> Callable[[dict[str, Any]], str]:
    """The C encoder, made once: ``json.dumps`` makes one for every call, which costs as much as a small message."""
    plain = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_plain_or_raise
    )
    make: Any = getattr(encoder, "c_make_encoder", None)
    try:
        chunks = make(None, _plain_or_raise, encoder.encode_basestring, None, ":", ",", False, False, False)
        if "".join(chunks({"a": [1, None, "é"]}, 0)) == plain.encode({"a": [1, None, "é"]}):
            return lambda message: "".join(chunks(message, 0))
    except Exception:  # noqa: BLE001, S110 - another Python may make it in another way, or not at all
        pass
    return plain.encode


_write = _writer()
