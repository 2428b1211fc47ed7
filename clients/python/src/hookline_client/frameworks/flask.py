"""Flask: an extension whose calls know the request they are made in.

``hookline = Hookline(app)`` or ``hookline.init_app(app)``; then ``hookline.track(event="Signed Up")`` anywhere. The
options are those given here, else of ``app.config["HOOKLINE"]``, else of the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, current_app, has_app_context, has_request_context, request

from hookline_client.client import FLUSH_SECONDS, Client
from hookline_client.frameworks.request_calls import RequestCalls, identity_of
from hookline_client.frameworks.web_request import ANONYMOUS_COOKIE, request_context
from hookline_client.log import logger
from hookline_client.receipts import FlushResult
from hookline_client.verbs import Verbs

EXTENSION = "hookline"


class Hookline(Verbs):
    """One extension may serve several applications; each has a client of its own.

    ``user_id`` is asked, within a request, who made it: a function without arguments that returns an id or None, such
    as ``lambda: current_user.get_id()`` with Flask-Login.
    """

    def __init__(
        self,
        app: Flask | None = None,
        write_key: str | None = None,
        *,
        user_id: Callable[[], object] | None = None,
        **options: Any,
    ) -> None:
        self._write_key = write_key
        self._options = options
        self._user_id = user_id or (lambda: None)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Make the application's client. InvalidOption when an option is wrong."""
        options: Any = {**app.config.get("HOOKLINE", {}), **self._options}
        configured_key = options.pop("write_key", None)
        app.extensions[EXTENSION] = Client(self._write_key or configured_key, options)

    @property
    def client(self) -> Client:
        """The client of the current application. RuntimeError outside an application's context."""
        made: Client = current_app.extensions[EXTENSION]
        return made

    def flush(self, timeout: float | None = FLUSH_SECONDS) -> FlushResult:
        """``Client.flush``."""
        return self.client.flush(timeout)

    def close(self, timeout: float | None = None) -> FlushResult:
        """``Client.close``."""
        return self.client.close(timeout)

    def _call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        if not has_app_context():
            logger().warning("there is no application context; the %s call is ignored", kind)
            return None
        calls = self._calls() if has_request_context() else self.client
        return calls._call(kind, given, fields)

    def _calls(self) -> RequestCalls:
        name = f"{EXTENSION}.{id(self)}"
        calls: RequestCalls | None = request.environ.get(name)
        if calls is None:  # not in g, which several requests share within one application context
            identity = identity_of(self._user_id, request.cookies.get(ANONYMOUS_COOKIE))
            calls = request.environ[name] = RequestCalls(self.client, identity, _context())
        return calls


def _context() -> dict[str, Any]:
    return request_context(
        url=request.base_url,
        path=request.path,
        ip=request.remote_addr,
        user_agent=request.headers.get("User-Agent"),
        referrer=request.headers.get("Referer"),
        language=request.headers.get("Accept-Language"),
    )
