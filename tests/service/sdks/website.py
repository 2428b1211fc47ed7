"""A web site on this machine whose pages use browser SDKs: ``programs/browser``, and the packages from the registry."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.service.sdks.said import CALLS
from tests.service.sdks.sdk import PROGRAMS, ROOT

PAGES = PROGRAMS / "browser"
PACKAGES = ROOT / "build/sdks"
MEDIA_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


class Website:
    """A context manager; ``host`` and ``write_key`` are what its ``/config.js`` tells the pages."""

    def __init__(self, host: str, write_key: str) -> None:
        values: dict[str, Any] = {"HOST": host, "WRITE_KEY": write_key, "CALLS": CALLS}
        self._config = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Website:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def origin(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        config = self._config.encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                file = _file(path)
                found = config if path == "/config.js" else file.read_bytes() if file.is_file() else None
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", MEDIA_TYPES.get(Path(path).suffix, "text/plain"))
                self.end_headers()
                self.wfile.write(found or b"")

            def log_message(self, *_: object) -> None:
                """Nothing: what a page asked for is in the browser's log."""

        return Handler


def _file(path: str) -> Path:
    return (PACKAGES if path.startswith("/node_modules/") else PAGES) / path.removeprefix("/")
