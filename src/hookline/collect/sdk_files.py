"""The browser SDK that the collection port serves: @segment/analytics-next as its package has it, hosts apart.

Where the SDK would fall back to Segment's own servers it is given the address it was itself loaded from, so that a
page talks to nobody else, whatever fails. ``scripts/vendor-analytics-next.sh`` brings another version.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from hookline.collect.document import Document

FOLDER = Path(__file__).parent / "analytics_next"
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
    """The SDK itself."""
    package = json.loads((FOLDER / "package.json").read_bytes())
    head = _HEAD % tuple(package[key].encode() for key in ("name", "version", "license"))
    script = (FOLDER / "standalone.js").read_bytes()
    for literal, ours in HOSTS:
        script = script.replace(literal, ours)
    return Document(_MEDIA_TYPE, _SCRIPT_CACHING, head + script + _TAIL, packed=True)


@cache
def bundle(name: str) -> Document:
    """One of ``BUNDLES``."""
    return Document(_MEDIA_TYPE, _BUNDLE_CACHING, (FOLDER / name).read_bytes(), packed=True)
