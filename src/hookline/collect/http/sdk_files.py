"""The files that browsers fetch for an SDK, as finished answers: compressed once, with a tag by which they are
asked for again."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path

from hookline.collect.http import answers

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
        shared = b"Cache-Control: %b\r\n" % caching.encode() + answers.FETCH_HEADERS
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
        """Return the answer to a GET with these headers."""
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


FOLDER = Path(__file__).parent.parent / "analytics_next"
BUNDLES = tuple(sorted(path.name for path in FOLDER.glob("*.bundle.*.js")))
"""What the SDK loads when it needs it; a name holds the hash of what is in the file."""

HOSTS = (
    (b'"api.segment.io/v1"', b"$hookline.api"),
    (b'"https://cdn.segment.com"', b"$hookline.base"),
    (b'"https://cdn.segment.com/', b'$hookline.base+"/'),
    (b'"https://cdnjs.cloudflare.com/', b'$hookline.base+"/cdnjs/'),
)
"""The literals of standalone.js that name a host it may send something to or load something from."""

_MEDIA_TYPE = "text/javascript; charset=utf-8"
_SCRIPT_CACHING = "public, max-age=3600"
_BUNDLE_CACHING = "public, max-age=31536000, immutable"

# `_cdn` is where the SDK looks for settings and bundles; it finds the place by itself only behind https.
_HEAD = b"""/*! %b %b (%b), from its npm package; $hookline stands for Segment's hosts. */
(function ($hookline) {
"""
_TAIL = b"""
})((function () {
  var script = document.currentScript;
  var found = script && /^(https?:.*)\\/analytics\\.js\\/v1\\//.exec(script.src);
  var base = found ? found[1] : location.origin;
  var named = document.querySelector("script[data-global-segment-analytics-key]");
  var name = (named && named.dataset.globalSegmentAnalyticsKey) || "analytics";
  var analytics = (window[name] = window[name] || []);
  analytics._cdn = analytics._cdn || base;
  return { base: base, api: base.replace(/^https?:\\/\\//, "") + "/v1" };
})());
"""


@cache
def analytics_js() -> Document:
    """Return the SDK itself."""
    package = json.loads((FOLDER / "package.json").read_bytes())
    head = _HEAD % tuple(package[key].encode() for key in ("name", "version", "license"))
    script = (FOLDER / "standalone.js").read_bytes()
    for literal, ours in HOSTS:
        script = script.replace(literal, ours)
    return Document(_MEDIA_TYPE, _SCRIPT_CACHING, head + script + _TAIL, packed=True)


@cache
def bundle(name: str) -> Document:
    """Return one of ``BUNDLES``."""
    return Document(_MEDIA_TYPE, _BUNDLE_CACHING, (FOLDER / name).read_bytes(), packed=True)
