"""How many requests a caller may make: each has a window of a minute, and every answer says what is left of it.

Generous: it keeps a program that went wild from taking control's time, and is far from what anybody does on purpose.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from hookline.api.caller import API
from hookline.api.calls import current_call, is_http
from hookline.api.problem import CODES, Problem, answer
from hookline.client_address import network_of

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

WINDOW_SECONDS = 60
KNOWN_REQUESTS_MAX = 30_000
"""Of each account, token, and of the admin token."""
UNKNOWN_REQUESTS_MAX = 3_000
"""Of each address that sends no good token: all it gets is a refusal."""
CALLERS_MAX = 10_000
"""The one heard of longest ago is forgotten."""


class RateLimits:
    """ASGI wrapper around the admin API: 429 with ``Retry-After`` beyond the limit, ``RateLimit`` on every answer."""

    def __init__(
        self,
        app: ASGIApp,
        known_max: int = KNOWN_REQUESTS_MAX,
        unknown_max: int = UNKNOWN_REQUESTS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._known_max = known_max
        self._unknown_max = unknown_max
        self._clock = clock
        # When the caller's window began, and how many requests it has seen.
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        call = current_call()
        if not is_http(scope) or call is None or not scope["path"].startswith(API):
            await self._app(scope, receive, send)
            return
        caller = call.caller
        most = self._unknown_max if caller is None else self._known_max
        used, wait_seconds = self._count(network_of(call.address) if caller is None else caller.key)
        headers = _headers(most, used, wait_seconds)

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        if used > most:
            refusal = Problem(429, *CODES[429], headers={"Retry-After": str(wait_seconds)})
            await answer(send_with_limits, refusal, scope["path"])
            return
        await self._app(scope, receive, send_with_limits)

    def _count(self, key: str) -> tuple[int, int]:
        """Return how many requests the caller has made in its window, this one included, and the seconds to its end."""
        now = self._clock()
        began, count = self._windows.pop(key, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
        self._windows[key] = (began, count + 1)
        if len(self._windows) > CALLERS_MAX:
            self._windows.popitem(last=False)
        return count + 1, max(1, int(began + WINDOW_SECONDS - now) + 1)


def _headers(most: int, used: int, wait_seconds: int) -> list[tuple[bytes, bytes]]:
    """As the IETF's draft has them (draft-ietf-httpapi-ratelimit-headers)."""
    return [
        (b"ratelimit-policy", b'"minute";q=%d;w=%d' % (most, WINDOW_SECONDS)),
        (b"ratelimit", b'"minute";r=%d;t=%d' % (max(0, most - used), wait_seconds)),
    ]
