"""Control under a path of its host, such as https://example.com/hookline (``control.public_url``).

Nothing else knows of it: what arrives with the path loses it here, as with a proxy that takes it off, and the addresses
in what leaves get it. In pages these are attributes, which only our templates write: what people and events say is
escaped, and holds no quotes. In scripts they are literals.
"""

from __future__ import annotations

import re
from gzip import compress, decompress
from typing import Any, cast
from urllib.parse import urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from hookline.settings import Settings

GZIP_LEVEL = 3
"""As pages are packed (``web/screen.py``): what is unpacked here is what we packed."""

_WRITTEN_KINDS = (b"text/html", b"text/javascript")
_ATTRIBUTE = re.compile(rb'(\s(?:href|src|action|data-(?:api|then|href|attempt|recent))=")([^"]*)')
_IN_ATTRIBUTE = re.compile(rb"(^| )/(?!/)")
"""Some hold a method before the address, or several addresses."""
_REFRESH = re.compile(rb'(\scontent="0;url=)/(?!/)')
_IN_SCRIPT = re.compile(rb"([\"'`])/(?=(?:api/v1|destinations|events|login|people|replays|sources)\b)")


def path_of(settings: Settings) -> str:
    """Return the path that people reach control under, empty where there is none."""
    return urlsplit(settings.control.public_url or "").path.rstrip("/")


class UnderPath:
    """ASGI wrapper around all that control serves; proxies may take the path off or leave it."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path
        self._raw = path.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as if there were no path, and put it into the answer."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        held: list[dict[str, Any]] = []
        """The beginning of an answer whose length changes."""

        async def send_under_path(message: Message) -> None:
            event = cast(dict[str, Any], message)
            if event["type"] == "http.response.start":
                event["headers"] = [
                    (name, self._location(value) if name == b"location" else value) for name, value in event["headers"]
                ]
                if scope["method"] != "HEAD" and _kind(event) in _WRITTEN_KINDS:
                    held.append(event)
                    return
            elif held:
                start = held.pop()
                if event.get("body") and not event.get("more_body"):
                    self._write(start, event)
                await send(cast(Message, start))
            await send(message)

        await self._app(self._without(scope), receive, send_under_path)

    def _write(self, start: dict[str, Any], event: dict[str, Any]) -> None:
        is_packed = (b"content-encoding", b"gzip") in start["headers"]
        body = self._written(decompress(event["body"]) if is_packed else event["body"])
        event["body"] = body = compress(body, GZIP_LEVEL, mtime=0) if is_packed else body
        start["headers"] = [each for each in start["headers"] if each[0] != b"content-length"]
        start["headers"].append((b"content-length", str(len(body)).encode()))

    def _without(self, scope: Scope) -> Scope:
        path, raw = scope["path"], scope.get("raw_path") or b""
        if path != self._path and not path.startswith(self._path + "/"):
            return scope
        stripped = dict(scope)
        stripped["path"] = path.removeprefix(self._path) or "/"
        stripped["raw_path"] = raw.removeprefix(self._raw) or b"/"
        return stripped  # type: ignore[return-value]  # a copy of one

    def _location(self, value: bytes) -> bytes:
        there = not value.startswith(b"/") or value.startswith((b"//", self._raw + b"/"))
        return value if there else self._raw + value

    def _written(self, body: bytes) -> bytes:
        address = rb"\1" + self._raw + b"/"
        if body.lstrip().startswith(b"<"):
            body = _ATTRIBUTE.sub(lambda found: found[1] + _IN_ATTRIBUTE.sub(address, found[2]), body)
            return _REFRESH.sub(address, body)
        return _IN_SCRIPT.sub(address, body)


def _kind(start: dict[str, Any]) -> bytes:
    kind: bytes = dict(start["headers"]).get(b"content-type", b"")
    return kind.partition(b";")[0]
