"""The middleware that gives every request its calls: ``request.hookline.track(event="Signed Up")``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest

from hookline_client import module
from hookline_client.frameworks.request_calls import RequestCalls, identity_of
from hookline_client.frameworks.web_request import ANONYMOUS_COOKIE, request_context
from hookline_client.log import logger


class HooklineMiddleware:
    """Sets ``request.hookline``. After Django's own, which find out who the user is."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        if module.client() is None:
            logger().warning("put hookline_client.frameworks.django into INSTALLED_APPS")
            raise MiddlewareNotUsed
        self._get_response = get_response
        self._is_async = inspect.iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Answer the request, with its calls."""
        if self._is_async:
            return self._answer(request)
        request.hookline = _calls(request, lambda: _user_id(getattr(request, "user", None)))
        return self._get_response(request)

    async def _answer(self, request: HttpRequest) -> Any:
        # Calls cannot await, so the user is looked up before; only for requests that carry a session.
        user_id: str | None = None
        failure: Exception | None = None
        find: Callable[[], Awaitable[object]] | None = getattr(request, "auser", None)
        if find is not None and settings.SESSION_COOKIE_NAME in request.COOKIES:
            try:
                user_id = _user_id(await find())
            except Exception as error:  # noqa: BLE001 - the page may need no user: it is raised where a call needs one
                failure = error

        def found() -> str | None:
            if failure is not None:
                raise failure
            return user_id

        request.hookline = _calls(request, found)
        return await self._get_response(request)


def _calls(request: HttpRequest, user_id: Callable[[], str | None]) -> RequestCalls:
    identity = identity_of(user_id, request.COOKIES.get(ANONYMOUS_COOKIE))
    # Not the client itself: a program may close it while requests are answered, and a test put another in its place.
    return RequestCalls(module.verbs, identity, _context(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    meta = request.META
    return request_context(
        url=f"{request.scheme}://{meta.get('HTTP_HOST', '')}{request.path}",
        path=request.path,
        ip=meta.get("REMOTE_ADDR"),
        user_agent=meta.get("HTTP_USER_AGENT"),
        referrer=meta.get("HTTP_REFERER"),
        language=meta.get("HTTP_ACCEPT_LANGUAGE"),
    )


def _user_id(user: Any) -> str | None:
    return str(user.pk) if user is not None and user.is_authenticated else None
