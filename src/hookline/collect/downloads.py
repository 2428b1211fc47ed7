"""What SDKs fetch from the collection port before or while they send: settings, and the browser SDK itself."""

from __future__ import annotations

from urllib.parse import unquote

from hookline.collect import sdk_files
from hookline.collect.auth import WriteKeyRefused, WriteKeys, query_key
from hookline.collect.document import Document
from hookline.collect.exchange import Exchange
from hookline.collect.limits import WRITE_KEY_CHARACTERS_MAX
from hookline.collect.router import Kind, Route
from hookline.collect.sdk_settings import base_url, segment_settings, source_config
from hookline.connections.model import Source
from hookline.settings import Settings

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
        """The answer; ``key`` is the write key in the path, if it has one. Raise WriteKeyRefused."""
        match route.kind:
            case Kind.BUNDLE:
                document = sdk_files.bundle(exchange.path.decode().rpartition("/")[2])
            case Kind.SCRIPT:
                _named(key, keys)
                document = sdk_files.analytics_js()
            case Kind.SETTINGS:
                _, write_key = _named(key, keys)
                base = base_url(self._settings, exchange.headers.get(b"host", b""))
                caching = _SETTINGS_CACHING if self._settings.collect.public_url else _REFLECTED_CACHING
                document = Document(_JSON, caching, segment_settings(write_key, base, route.maker))
            case _:
                document = Document(_JSON, _CONFIG_CACHING, source_config(_asking(exchange, keys).id))
        return document.answer(exchange.headers)


def _named(key: bytes, keys: WriteKeys) -> tuple[Source, str]:
    """The source of a write key in a path, and the key: as it stands there, else percent-decoded."""
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
