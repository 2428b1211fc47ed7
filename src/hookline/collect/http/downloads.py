"""Serve what SDKs fetch before they send: their own files and their settings."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import msgspec

from hookline.collect.auth import WriteKeyRefused, WriteKeys, query_key
from hookline.collect.decode import HOST_CHARACTERS_MAX, WRITE_KEY_CHARACTERS_MAX
from hookline.collect.http import router
from hookline.collect.http.request import Exchange
from hookline.collect.http.router import Document, Kind, Route
from hookline.connections.model import Source
from hookline.settings import Settings

_encode = msgspec.json.Encoder().encode
_NAME_AND_PORT = re.compile(rb"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A Host that is repeated to SDKs: fewer are than HTTP allows, no user name nor anything that a URL would read so."""


def segment_settings(write_key: str, base: str, maker: str) -> bytes:
    """Return what analytics.js and Segment's mobile SDKs ask for; ``base`` is this server as they reach it.

    Without an ``apiHost`` under their maker's name they would send events there, and without the ``sampleRate`` their
    usage counters. Only one maker is named: with a second one, browser SDKs first load more of themselves, from where
    their maker keeps it.
    """
    split = urlsplit(base)
    host = f"{split.netloc}{split.path}/v1"
    return _encode(
        {
            "integrations": {maker: {"apiKey": write_key, "apiHost": host, "protocol": split.scheme}},
            "plan": {},
            "metrics": {"sampleRate": 0, "host": host, "protocol": split.scheme},
        }
    )


def source_config(source_id: str) -> bytes:
    """Return what RudderStack's SDKs ask for: a source that is on, with no destinations to load and nothing to
    report."""
    silent = {"errors": {"enabled": False}, "metrics": {"enabled": False}}
    source = {"id": source_id, "name": source_id, "enabled": True}
    return _encode({"source": {**source, "config": {"statsCollection": silent}, "destinations": []}})


def base_url(settings: Settings, host: bytes) -> str:
    """This server as SDKs reach it: the public address, else the Host they asked, else the one listened on."""
    if settings.collect.public_url:
        return settings.collect.public_url.rstrip("/")
    if len(host) <= HOST_CHARACTERS_MAX and _NAME_AND_PORT.fullmatch(host):
        return f"http://{host.decode('ascii')}"
    return f"http://{settings.collect.listen}"


_JSON = "application/json"
_SETTINGS_CACHING = "public, max-age=120"
"""Long enough for the pages of one visit, short enough for a change of ``collect.public_url``."""
_REFLECTED_CACHING = "private, max-age=120"
"""Where the answer names the Host that was asked: kept by a shared cache, one visitor's Host would be another's."""
_CONFIG_CACHING = "private, no-cache"
"""Asked for anew each time: the write key may be in a header, which the address does not show."""


class Downloads:
    """Answers GET on the paths of ``router`` that are fetched."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def answer(self, exchange: Exchange, route: Route, key: bytes, keys: WriteKeys) -> bytes:
        """Return the answer; ``key`` is the write key in the path, if it has one. Raise WriteKeyRefused."""
        match route.kind:
            case Kind.BUNDLE:
                document = router.bundle(exchange.path.decode().rpartition("/")[2])
            case Kind.SCRIPT:
                _named(key, keys)
                document = router.analytics_js()
            case Kind.SETTINGS:
                _, write_key = _named(key, keys)
                base = base_url(self._settings, exchange.headers.get(b"host", b""))
                caching = _SETTINGS_CACHING if self._settings.collect.public_url else _REFLECTED_CACHING
                document = Document(_JSON, caching, segment_settings(write_key, base, route.maker))
            case _:
                document = Document(_JSON, _CONFIG_CACHING, source_config(_asking(exchange, keys).id))
        return document.answer(exchange.headers)


def _named(key: bytes, keys: WriteKeys) -> tuple[Source, str]:
    """Return the source of a write key in a path, and the key: as it stands there, else percent-decoded."""
    if len(key) > 3 * WRITE_KEY_CHARACTERS_MAX:
        raise WriteKeyRefused("unknown_write_key")
    written = key.decode("latin-1")
    try:
        return keys.of_key(written), written
    except WriteKeyRefused:
        decoded = unquote(written)
        return keys.of_key(decoded), decoded


def _asking(exchange: Exchange, keys: WriteKeys) -> Source:
    return keys.of_headers(exchange.headers) or keys.of_key(query_key(exchange.query))
