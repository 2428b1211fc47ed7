"""Mutations of bytes and of decoded JSON: small damage, and damage that parsers are known to read in two ways."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

TOKENS = (
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n\n",
        b"\t",
        b" ",
        b"\x00",
        b"\x0b",
        b"\x7f",
        b"\x80",
        b"\xff",
        b":",
        b",",
    ),
    *(b";", b'"', b"\\", b"{", b"}", b"[", b"]", b"%00", b"../", b"#", b"?", b"0", b"-1", b"+1", b"0x10", b"1e9"),
    *(b"99999999999999999999", b"4294967296", b"null", b"NaN", b"\xef\xbb\xbf", b"\xc0\xaf", b"\xed\xa0\x80"),
    *(b"\xf0\x9f\x98\x80", b"\\ud800", b"\\u0000", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"HTTP/1.1 "),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Upgrade: h2c\r\n",
        b"0\r\n\r\n",
        b"GET / HTTP/1.1",
    ),
    *(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"a" * 70_000),
)
REPEATS_MAX = 300
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 1e21, 1e300, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, float("inf")),
    *("", " ", "a", "true", "null", "0", "\x00", "a\r\nX: y", "\ud83d", "\u202e\U0001f600", "x" * 200, "y" * 70_000),
    *(
        "a.b",
        "$.userId",
        "{{userId}}",
        "@path",
        "../..",
        "keep",
        "env:HOME",
        "file:/etc/hostname",
        "https://[::1",
        "1d",
    ),
    *("2026-11-25", "0000-00-00T99:99Z", [], {}, [[]], {"": ""}, {"@path": "$."}, [None], ["a", "a"]),
)
ODD_KEYS = (
    "",
    " ",
    "id",
    "name",
    "@path",
    "@template",
    "@if",
    "a.b",
    "a[0]",
    "__proto__",
    "No",
    "x" * 300,
    "\ud83d",
    "\n",
)


def damaged(random: Random, data: bytes) -> bytes:
    """The data after one to three mutations."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(_MUTATIONS)(random, data)
    return data


def altered(random: Random, value: Any, others: Sequence[Any] = ()) -> Any:
    """A copy of a decoded value in which one to three parts are gone, twice, elsewhere, of another type or name, or
    one of the others."""
    whole = {"": copy.deepcopy(value)}
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places: list[tuple[Any, Any]] = [(whole, "")] if "" in whole else []
        for container, key in places:
            inner = container[key]
            places += (
                [(inner, each) for each in (inner if isinstance(inner, dict) else range(len(inner)))]
                if (isinstance(inner, dict | list))
                else []
            )
        if places:
            container, key = random.choice(places)
            other, of = random.choice(places)
            _alter(random, container, key, random.choice((*others, other[of], *random.choices(ODD_VALUES, k=2))))
    return whole.get("")


def in_pieces(random: Random, data: bytes) -> list[bytes]:
    """The data as a network might bring it: whole, cut somewhere, or byte by byte."""
    if len(data) < 2 or random.random() < 0.2:
        return [data] if data else []
    if len(data) < 2_000 and random.random() < 0.1:
        cuts = list(range(1, len(data)))
    else:
        cuts = sorted({random.randrange(1, len(data)) for _ in range(random.choice((1, 2, 3, 8)))})
    # A bare LF before a request is refused where it can be seen, which is at the start of a piece.
    cuts = [at for at in cuts if data[at : at + 1] != b"\n" or data[at - 1 : at] == b"\r"]
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def weighted(random: Random, usual: T, unusual: Sequence[T], odds: float) -> T:
    """The usual value, or with these odds one of the others."""
    return random.choice(unusual) if random.random() < odds else usual


def _alter(random: Random, container: Any, key: Any, other: Any) -> None:
    match random.randrange(6):
        case 0:
            del container[key]
        case 1:
            container[key] = random.choice(([container[key]], {random.choice(ODD_KEYS): container[key]}))
        case 2 if isinstance(container, dict) and key != "":
            container[random.choice(ODD_KEYS)] = container.pop(key)
        case 2 if isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        case _:
            container[key] = copy.deepcopy(other)


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + int(random.expovariate(0.1)) + 1)


def _insert(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(TOKENS) + data[at:]


def _replace(random: Random, data: bytes) -> bytes:
    start, end = _span(random, data)
    return data[:start] + random.choice(TOKENS) + data[end:]


def _flip(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _delete(random: Random, data: bytes) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _repeat(random: Random, data: bytes) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[start:end] * random.randrange(2, REPEATS_MAX) + data[end:]


def _truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _move(random: Random, data: bytes) -> bytes:
    start, end = _span(random, data)
    rest = data[:start] + data[end:]
    at = random.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


def _repeat_line(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    at = random.randrange(len(lines))
    return b"\r\n".join([*lines[:at], lines[at], *lines[random.choice((at, random.randrange(len(lines)))) :]])


_MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _insert,
    _replace,
    _flip,
    _delete,
    _repeat,
    _truncate,
    _move,
    _repeat_line,
)
