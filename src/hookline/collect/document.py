"""Something to fetch: its answers as finished bytes, plain, gzipped, and for those who have it already."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from hashlib import blake2b

from hookline.collect import cors

_GZIP_LEVEL = 9
_TAG_BYTES = 12
_TAG = re.compile(rb'(?:W/)?"([^"]*)"')
_GZIP = re.compile(
    rb"(?:^|,)[ \t]*(?:x-)?gzip[ \t]*(?:;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*(?:,|\Z)", re.IGNORECASE
)
"""gzip in an Accept-Encoding, with how much it is wanted."""


class Document:
    """One body with its type and its caching; ``packed`` is for what is worth compressing.

    The answers are made once and shared: a client that asks a thousand times at once costs a thousand references.
    """

    __slots__ = ("_packed", "_plain", "_unchanged")

    def __init__(self, media_type: str, caching: str, body: bytes, *, packed: bool = False) -> None:
        tag = blake2b(body, digest_size=_TAG_BYTES).hexdigest().encode()
        shared = b"Cache-Control: %b\r\n" % caching.encode() + cors.FETCH_HEADERS
        shared += b"Vary: Accept-Encoding\r\n" if packed else b""
        head = b"Content-Type: %b\r\nX-Content-Type-Options: nosniff\r\n" % media_type.encode() + shared
        self._plain = self._packed = _answer(head, tag, body)
        self._unchanged = {tag: _unchanged(shared, tag)}
        if packed:
            tag += b"-gzip"
            head += b"Content-Encoding: gzip\r\n"
            self._packed = _answer(head, tag, gzip.compress(body, _GZIP_LEVEL, mtime=0))
            self._unchanged[tag] = _unchanged(shared, tag)

    def answer(self, headers: Mapping[bytes, bytes]) -> bytes:
        """The answer to a GET with these headers."""
        held = headers.get(b"if-none-match")
        if held is not None:
            for tag in _TAG.findall(held):
                if tag in self._unchanged:
                    return self._unchanged[tag]
        return self._packed if _takes_gzip(headers.get(b"accept-encoding", b"")) else self._plain


def _answer(head: bytes, tag: bytes, body: bytes) -> bytes:
    return b'HTTP/1.1 200 OK\r\n%bETag: "%b"\r\nContent-Length: %d\r\n\r\n%b' % (head, tag, len(body), body)


def _unchanged(shared: bytes, tag: bytes) -> bytes:
    return b'HTTP/1.1 304 Not Modified\r\n%bETag: "%b"\r\n\r\n' % (shared, tag)


def _takes_gzip(accepted: bytes) -> bool:
    found = _GZIP.search(accepted)
    return found is not None and (found[1] is None or float(found[1]) > 0)
