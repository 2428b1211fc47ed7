"""Answers of receivers: valid ones, and ones whose status, headers, framing or body was changed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.fuzz.mutations import damaged, weighted

STATUSES = (
    200,
    200,
    200,
    201,
    202,
    204,
    206,
    299,
    301,
    304,
    307,
    400,
    401,
    404,
    408,
    410,
    413,
    422,
    429,
    499,
    500,
    503,
)
ODD_STATUS_LINES = (
    *(
        b"HTTP/1.1 200",
        b"HTTP/1.0 200 OK",
        b"HTTP/2 200 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 -200 OK",
    ),
    *(b"http/1.1 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 200\tOK", b"HTTP/1.1 099 No", b"HTTP/1.1 600 No", b"200 OK"),
    *(b"HTTP/1.1 999 No", b"HTTP/1.1 2OO OK", b"HTTP/1.1 101 Switching", b"HTTP/1.1 100 Continue", b"ICY 200 OK", b""),
    *(b"HTTP/1.1 \xef\xbc\x92\xef\xbc\x90\xef\xbc\x90 OK", b"HTTP/1.1 200 " + b"x" * 70_000, b"HTTP/9.9 200 OK"),
)
HEADERS = (
    *(b"Content-Type: text/plain", b"Connection: close", b"Connection: keep-alive", b"Server: x", b"Set-Cookie: a=b"),
    *(b"Retry-After: 5", b"retry-after:  120 ", b"Retry-After: Fri, 20 Nov 2026 12:00:00 GMT", b"X: caf\xe9"),
)
ODD_HEADERS = (
    *(b"Retry-After: -1", b"Retry-After: 1e9", b"Retry-After: " + b"9" * 64, b"Retry-After: \xb2", b"Retry-After:"),
    *(b"Retry-After: Fri, 99 Foo 99999 99:99:99 GMT", b"Retry-After: 1 Jan 0001 00:00 +9999", b"Retry-After: ,"),
    *(b"Retry-After: 0 0 0 0 0 0", b"Retry-After: Mon, 1 Jan 1 0:0:0 -2359", b"Retry-After: 1 Jan 10000 00:00:00"),
    *(b"Retry-After: Thu, 01 Jan 1970 00:00:00 -9999999999", b"Retry-After: a" * 2, b"Retry-After: 1 Jan 70 :: GMT"),
    *(
        b"Content-Length: 0",
        b"Content-Length: 99999",
        b"Content-Length: -1",
        b"Content-Length: +1",
        b"Content-Length: a",
    ),
    *(b"Content-Length: 18446744073709551617", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b"Upgrade: h2c\r\nConnection: Upgrade", b"Trailer: X", b"X-A: b\r\n c", b"X-A : b", b": b", b"X-A", b"X: \x00"),
    *(b"\r\n".join(b"X-%d: y" % number for number in range(300)), b"X: " + b"y" * 70_000, b"X" * 70_000 + b": y"),
)
BODIES = (b"", b"", b"", b"{}", b"ok", b"\x00\xff\xfe", "\u2028\U0001f600".encode(), b"x" * 3_000, b"<html>" * 15_000)


class Answer(NamedTuple):
    """An answer's bytes; ``status`` is what it says beyond doubt, None when that is open."""

    data: bytes
    status: int | None = None


def answer(random: Random) -> Answer:
    """A valid answer, or one with changes in any of its parts."""
    status = random.choice(STATUSES)
    valid = random.random() < 0.4
    headers = random.sample(HEADERS, random.choice((0, 0, 1, 3)))
    line = b"HTTP/1.1 %d %b" % (status, random.choice((b"OK", b"", b"Some Reason", b"Gr\xfcn")))
    body = b"" if status in (204, 304) else random.choice(BODIES)
    content = _framed(random, headers, body, sized=status not in (204, 304))
    random.shuffle(headers)
    if valid:
        interim = weighted(
            random, b"", (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" * 3), 0.1
        )
        return Answer(interim + b"\r\n".join([line, *headers]) + b"\r\n\r\n" + content, status)
    for _ in range(random.choice((0, 1, 1, 2))):
        headers.insert(random.randrange(len(headers) + 1), random.choice(ODD_HEADERS))
    head = b"\r\n".join([weighted(random, line, ODD_STATUS_LINES, 0.2), *headers]) + b"\r\n\r\n"
    if random.random() < 0.3:
        head = damaged(random, head)
    if random.random() < 0.3:
        content = damaged(random, content)
    before = weighted(random, b"", (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, b"\r\n", b"\n", b"\x16\x03\x01"), 0.05)
    return Answer(before + head + content + weighted(random, b"", (head, b"\r\n", b"surplus"), 0.05))


def _framed(random: Random, headers: list[bytes], body: bytes, *, sized: bool) -> bytes:
    """Add the header that says how long the body is; return the body as it goes over the wire."""
    if not sized:
        return b""
    if random.random() < 0.7:
        headers.append(b"%b: %d" % (random.choice((b"Content-Length", b"content-length")), len(body)))
        return body
    headers.append(b"Transfer-Encoding: chunked")
    content, size = b"", random.choice((1, 10, 5_000)) if len(body) < 100 else 5_000
    for at in range(0, len(body), size):
        content += b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
    return content + b"0\r\n\r\n"
