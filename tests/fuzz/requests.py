"""Requests to the collection edge: valid ones, and ones whose head, framing, encoding or body was changed."""

from __future__ import annotations

import gzip
import zlib
from base64 import b64encode, urlsafe_b64encode
from random import Random
from typing import NamedTuple
from urllib.parse import quote_plus

from hookline.collect.http.router import BUNDLES
from tests.fuzz import events
from tests.fuzz.mutations import damaged, weighted
from tests.unit.collect.wire import DISABLED_KEY, KEY, basic

SINGLES = {b"/v1/" + type_.encode(): type_ for type_ in events.TYPES}
BATCHES = (b"/v1/batch", b"/v1/import", b"/v1/b", b"/beacon/v1/batch?writeKey=wk_web")
PIXELS = {b"/v1/pixel/" + type_.encode(): type_ for type_ in events.TYPES}
OTHER_PIXELS = (b"/pixel/v1/track", b"/pixel/v1/page", b"/v1/pixel/track/", b"/v1/pixel/t")
SETTINGS = (
    *(b"/v1/projects/wk_web/settings", b"/projects/%77k_web/settings/", b"/v1/projects/nobody/settings"),
    *(b"/projects/%ff/settings", b"/v1/projects/" + b"a" * 3_000 + b"/settings", b"/v1/projects/a/../b/settings"),
    *(b"/sourceConfig/?writeKey=wk_web", b"/sourceConfig", b"/sourceConfig/?writeKey=%00&writeKey"),
    *(b"/analytics.js/v1/nobody/analytics.min.js", b"/analytics-next/bundles/" + BUNDLES[0].encode()),
)
SCRIPT = b"/analytics.js/v1/wk_web/analytics.min.js"
FETCH_HEADERS = (
    *(b"Accept-Encoding: gzip", b"Accept-Encoding: gzip;q=0, br", b'If-None-Match: "x", W/"y"', b"If-None-Match: *"),
    *(b"If-None-Match: " + b'"' * 900, b"Content-Length: 0", b"Content-Encoding: gzip", b"Origin: null"),
)
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
ODD_FIELDS = (
    *(
        b"userId.a=1",
        b"userId=2",
        b"properties=1",
        b"properties.a=1",
        b"=",
        b"a",
        b".=1",
        b"..a=1",
        b"a..b=1",
        b"x=%ff",
    ),
    *(b"anonymousId=%22a%22", b"timestamp=now", b"messageId=" + b"m" * 600, b"&" * 150, b"d" + b".d" * 200 + b"=1"),
    *(b"integrations.All=false", b"context.integrations=1", b"type=track", b"%00=%00", b"data=", b"a+b=c+d", b"x=\xc3"),
)
PIXEL_DATA_BYTES_MAX = 6_000
BOMB = gzip.compress(bytes(4_000_000), mtime=0)


class Request(NamedTuple):
    """A request's bytes; ``stored`` is the body of the one event it must have stored, None when that is open."""

    data: bytes
    stored: bytes | None = None


def request(random: Random) -> Request:
    """A valid request, or one with changes in any of its parts."""
    kind = random.random()
    if kind < 0.15:
        return _valid_pixel(random) if kind < 0.05 else _fetched(random)
    return _valid(random) if kind < 0.4 else _changed(random)


def _valid(random: Random) -> Request:
    path, type_ = random.choice(list(SINGLES.items()))
    event = events.written(random, events.event(random, type_))
    body = gzip.compress(event, mtime=0) if (zipped := random.random() < 0.3) else event
    lines = [b"POST %b HTTP/1.1" % path, b"Host: localhost", b"Authorization: " + basic(f"{KEY}:").encode()]
    lines += [b"Content-Encoding: gzip"] if zipped else []
    framing, content = _framed(random, body)
    random.shuffle(rest := [*lines[1:], framing])
    return Request(b"\r\n".join([lines[0], *rest]) + b"\r\n\r\n" + content, event)


def _valid_pixel(random: Random) -> Request:
    path, type_ = random.choice(list(PIXELS.items()))
    event = events.written(random, events.event(random, type_))
    data = random.choice((b64encode, urlsafe_b64encode))(event)
    if len(data) > PIXEL_DATA_BYTES_MAX:
        return _valid(random)
    target = path + b"?data=" + quote_plus(random.choice((data, data.rstrip(b"=")))).encode()
    lines = [b"Host: localhost", b"Authorization: " + basic(f"{KEY}:").encode()]
    lines += random.choice(([], [], [b"Content-Length: 0"]))
    return Request(b"\r\n".join([b"GET %b HTTP/1.1" % target, *lines]) + b"\r\n\r\n", event)


def _fetched(random: Random) -> Request:
    """What is fetched: a pixel or one of the documents, with changes in its target and in its head."""
    if random.random() < 0.5:
        path = weighted(random, random.choice(list(PIXELS)), OTHER_PIXELS, 0.3)
        target = path + b"?" + _query(random)
    else:
        target = SCRIPT if random.random() < 0.05 else random.choice(SETTINGS)
    if random.random() < 0.3:
        target = b"/" + damaged(random, target[1:])
    line = b"%b %b %b" % (weighted(random, b"GET", METHODS, 0.2), target, weighted(random, b"HTTP/1.1", VERSIONS, 0.1))
    headers = [b"Host: localhost"]
    if random.random() < 0.5:
        headers.append(b"Authorization: " + basic(weighted(random, KEY, (DISABLED_KEY, "x"), 0.2)).encode())
    headers += random.choices(FETCH_HEADERS, k=random.choice((0, 1, 1, 2)))
    head = b"\r\n".join([line, *headers]) + b"\r\n\r\n"
    return Request(damaged(random, head) if random.random() < 0.1 else head)


def _query(random: Random) -> bytes:
    if random.random() < 0.5:
        data = b64encode(events.body(random, single=True)[:PIXEL_DATA_BYTES_MAX])
        return b"writeKey=wk_web&data=" + (damaged(random, data) if random.random() < 0.5 else data)
    fields = [b"writeKey=wk_web", b"userId=u1", b"event=%F0%9F%98%80", b"properties.a.b=1"]
    fields += random.choices(ODD_FIELDS, k=random.choice((0, 1, 2, 5)))
    random.shuffle(fields)
    return b"&".join(fields)


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
