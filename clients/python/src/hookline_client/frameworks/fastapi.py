"""FastAPI and Starlette: a client that lives as long as the application, and its calls as a dependency.

``hookline = Hookline()``, ``FastAPI(lifespan=hookline.lifespan)``, and in an endpoint
``calls: Annotated[RequestCalls, Depends(hookline)]``. Plain Starlette calls ``hookline(request)``.
"""
# Annotations are objects here, not strings: FastAPI reads those of ``__call__``.

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import HTTPConnection

from hookline_client.aio import AsyncClient
from hookline_client.frameworks.request_calls import RequestCalls, identity_of
from hookline_client.frameworks.web_request import ANONYMOUS_COOKIE, request_context

__all__ = ["Hookline", "RequestCalls"]


class Hookline:
    """Holds the options until the application starts, and its client from then on.

    ``user_id`` is asked who made a request: a function of the connection that returns an id or None. Without one it is
    the user of Starlette's AuthenticationMiddleware.
    """

    def __init__(
        self,
        write_key: str | None = None,
        *,
        user_id: Callable[[HTTPConnection], object] | None = None,
        **options: Any,
    ) -> None:
        self._write_key = write_key
        self._options: Any = options
        self._user_id = user_id or _authenticated
        self._client: AsyncClient | None = None

    @property
    def client(self) -> AsyncClient:
        """The client. RuntimeError when the application has not started."""
        if self._client is None:
            raise RuntimeError("the application has not started: give it lifespan=hookline.lifespan")
        return self._client

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Make the client, and at the end send what waits. An application's own lifespan may enter this one."""
        async with AsyncClient(self._write_key, self._options) as self._client:
            yield
        self._client = None

    def __call__(self, connection: HTTPConnection) -> RequestCalls:
        """The calls of a request or a WebSocket."""
        identity = identity_of(lambda: self._user_id(connection), connection.cookies.get(ANONYMOUS_COOKIE))
        return RequestCalls(self.client, identity, _context(connection))


def _authenticated(connection: HTTPConnection) -> object:
    user = connection.scope.get("user")
    return user.identity if user is not None and user.is_authenticated else None


def _context(connection: HTTPConnection) -> dict[str, Any]:
    headers = connection.headers
    return request_context(
        url=str(connection.url),
        path=connection.url.path,
        ip=connection.client.host if connection.client is not None else None,
        user_agent=headers.get("user-agent"),
        referrer=headers.get("referer"),
        language=headers.get("accept-language"),
    )
