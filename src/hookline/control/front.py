"""What control serves: the admin API and the pages, each made when it is first asked for, behind the gates around both.

The framework, and all that speaks through it, takes longer to load than the rest of control: a service that is only
started, watched and stopped goes without.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hookline.api.auth.service import session_store
from hookline.api.caller import API
from hookline.api.calls import Calls
from hookline.api.gates import DatabaseGate, HostGate, SecurityHeaders, StopGate, UnderPath, path_of
from hookline.api.rate_limits import RateLimits
from hookline.api.services import Services
from hookline.features.fleet.metrics import CountAnswers
from hookline.features.fleet.probes import Probes
from hookline.features.fleet.service import own_metrics

if TYPE_CHECKING:
    from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send


class Deferred:
    """ASGI application made by ``make`` at its first request, in a thread; that request waits, others go on."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._made: ASGIApp | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; raise what ``make`` raises."""
        app = self._made or await self._first()
        await app(scope, receive, send)

    async def _first(self) -> ASGIApp:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return self._made


NOT_OURS = ("pydantic", "attr", "attrs")
"""The framework takes these where they are installed, for whatever reason; it goes on without them, and is smaller."""
_LOADING = threading.Lock()

Routes = Callable[[], "Sequence[ControllerRouterHandler]"]
"""Makes the routes of an application: this room does not know the pages."""


def build(services: Services, pages: Routes | None = None) -> ASGIApp:
    """Put together what control serves; the first request for each part raises UndeclaredRoute where that is due."""
    served: ASGIApp = Deferred(lambda: _application(services))
    if pages is not None:
        served = ApiBesidePages(served, Deferred(lambda: _application(services, pages)))
    inner = HostGate(StopGate(DatabaseGate(RateLimits(Probes(served, services)))), services.settings)
    gated = SecurityHeaders(inner, over_tls=session_store(services).secure)
    whole = CountAnswers(Calls(gated, services), own_metrics(services))
    path = path_of(services.settings)
    return UnderPath(whole, path) if path else whole


def _application(services: Services, routes: Routes | None = None) -> ASGIApp:
    """Make the application of these routes, the API's where none are given."""
    with _LOADING:
        hidden = [name for name in NOT_OURS if name not in sys.modules]
        sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # makes their import fail
        try:
            from hookline.control import app

            return app.checked(app.application((routes or app.api_routes)(), services))
        finally:
            for name in hidden:
                del sys.modules[name]


class ApiBesidePages:
    """ASGI wrapper: what is below ``/api`` goes to one application, everything else to the pages."""

    def __init__(self, api: ASGIApp, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        app = self._api if scope.get("path", "").startswith(API) else self._pages
        await app(scope, receive, send)
