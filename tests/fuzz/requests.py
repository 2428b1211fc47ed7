"""Requests to the collection edge: valid ones, and ones whose head, framing, encoding or body was changed."""

from __future__ import annotations

import gzip
import zlib
from random import Random
from typing import NamedTuple

from tests.fuzz import events
from tests.fuzz.mutations import damaged, weighted
from tests.unit.collect.wire import DISABLED_KEY, KEY, basic

SINGLES = {b"/v1/" + type_.encode(): type_ for type_ in events.TYPES}
BATCHES = (b"/v1/batch", b"/v1/import", b"/v1/b")
ODD_PATHS = (
    *(b"/v1/t?writeKey=wk_web&a=%00", b"/v1/m", b"/healthz", b"/readyz", b"/v1/track/", b"//v1/track", b"/v1/%74rack"),
    *(b"/v1/../v1/track", b"*", b"http://h/v1/track", b"/", b"/v1/track#x", b"/v1/" + b"a" * 9_000, b"/v1/\xff"),
)
METHODS = (b"GET", b"HEAD", b"OPTIONS", b"PUT", b"TRACE", b"CONNECT", b"post", b"P" * 1_000, b"PRI", b"")
VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"")
ODD_HEADERS = (
    *(b"Expect: 100-continue", b"Expect: magic", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings"),
    *(b"Connection: close", b"Connection: keep-alive", b"Transfer-Encoding: chunked", b"Transfer-Encoding: xchunked"),
    *(
        b"Content-Length: 0",
        b"Content-Length: 99999999",
        b"Content-Length: +5",
        b"Host: b",
        b"Host: [::1]:99",
        b"Host:",
    ),
    *(b"X-A: b\r\n c", b"X-A : b", b": b", b"X-A", b"X-A: \x00", b"X-A: \xff", b"X-A:" + b"b" * 66_000),
    *(b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"traceparent: \xff"),
    *(b"Content-Encoding: br", b"Content-Encoding: identity", b"\r\n".join(b"X-%d: y" % n for n in range(120))),
)
BOMB = gzip.compress(bytes(4_000_000), mtime=0)


class Request(NamedTuple):
    """A request's bytes; ``stored`` is the body of the one event it must have stored, None when that is open."""

    data: bytes
    stored: bytes | None = None


def request(random: Random) -> Request:
    """A valid request, or one with changes in any of its parts."""
    return _valid(random) if random.random() < 0.3 else _changed(random)


def _valid(random: Random) -> Request:
    path, type_ = random.choice(list(SINGLES.items()))
    event = events.written(random, events.event(random, type_))
    body = gzip.compress(event, mtime=0) if (zipped := random.random() < 0.3) else event
    lines = [b"POST %b HTTP/1.1" % path, b"Host: localhost", b"Authorization: " + basic(f"{KEY}:").encode()]
    lines += [b"Content-Encoding: gzip"] if zipped else []
    framing, content = _framed(random, body)
    random.shuffle(rest := [*lines[1:], framing])
    return Request(b"\r\n".join([lines[0], *rest]) + b"\r\n\r\n" + content, event)


def _changed(random: Random) -> Request:
    single = random.random() < 0.6
    path = weighted(random, random.choice(list(SINGLES) if single else BATCHES), ODD_PATHS, 0.1)
    line = b"%b %b %b" % (weighted(random, b"POST", METHODS, 0.1), path, weighted(random, b"HTTP/1.1", VERSIONS, 0.05))
    headers = [b"Host: localhost", b"Content-Type: application/json"]
    if random.random() < 0.9:
        key = weighted(random, f"{KEY}:", (f"{DISABLED_KEY}:", ":", "\xff:", "wk_web", "x" * 500), 0.1)
        headers.append(
            b"Authorization: " + weighted(random, basic(key), ("Basic", "Basic !", "Bearer x"), 0.05).encode()
        )
    body = events.body(random, single)
    if random.random() < 0.3:
        body = _zipped(random, body)
        headers.append(b"Content-Encoding: " + random.choice((b"gzip", b"gzip", b"GZIP", b"x-gzip", b"gzip, gzip")))
    framing, body = _framed(random, body)
    headers.append(framing)
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        headers.insert(random.randrange(len(headers) + 1), random.choice(ODD_HEADERS))
    head = b"\r\n".join([line, *headers]) + b"\r\n\r\n"
    if random.random() < 0.2:
        head = damaged(random, head)
    if random.random() < 0.15:
        body = damaged(random, body)
    return Request(head + body)


def _framed(random: Random, body: bytes) -> tuple[bytes, bytes]:
    """The header that says how long the body is, and the body as it goes over the wire."""
    if random.random() < 0.7:
        return b"Content-Length: %d" % len(body), body
    content, rest = b"", body
    while rest:
        size = min(len(rest), random.choice((1, 7, 100, 5_000)) if len(rest) < 2_000 else 50_000)
        extension = weighted(random, b"", (b";a=b", b';a="b"', b";" + b"x" * 100), 0.1)
        content += b"%b%b\r\n%b\r\n" % (random.choice((b"%x", b"%X", b"0%x")) % size, extension, rest[:size])
        rest = rest[size:]
    return b"Transfer-Encoding: chunked", content + b"0\r\n" + weighted(random, b"", (b"X-T: 1\r\n",), 0.1) + b"\r\n"


def _zipped(random: Random, body: bytes) -> bytes:
    data = gzip.compress(body, compresslevel=random.choice((0, 9)), mtime=0)
    match random.randrange(9):
        case 0:
            return data[:-8] + damaged(random, data[-8:])
        case 1:
            return damaged(random, data)
        case 2:
            return data + damaged(random, data[:10])
        case 3:
            half = len(body) // 2
            return gzip.compress(body[:half]) + gzip.compress(body[half:])
        case 4:
            return gzip.compress(data)
        case 5:
            return weighted(random, zlib.compress(body), (body, BOMB, gzip.compress(b"") * 20), 0.7)
        case _:
            return data
