"""What control serves: the admin API, and the pages when the first is asked for, behind the gates around them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from hookline.api import openapi
from hookline.api.audit.trail import AuditTrail
from hookline.api.auth.access import API, SignInNeeded, check_needs, require_need, to_login
from hookline.api.auth.service import session_store
from hookline.api.calls import Calls
from hookline.api.gates import DatabaseGate, HostGate, SecurityHeaders, UnderPath, path_of
from hookline.api.idempotency import Idempotency
from hookline.api.listing import JsonBody
from hookline.api.problem import respond
from hookline.api.rate_limits import RateLimits
from hookline.api.services import Services
from hookline.features.accounts.api import TokensApi, Users
from hookline.features.audiences.api.members import AudienceMembers, AudiencePreviews
from hookline.features.audiences.api.objects import (
    Audiences,
    AudienceSyncs,
    ComputedTraits,
    ComputedTraitSyncs,
    TraitValues,
)
from hookline.features.audit.api import AuditEntries
from hookline.features.catalog.api import Kinds, get_icon, get_kind, list_catalog
from hookline.features.connections.api.apply import Connections, Versions
from hookline.features.connections.api.objects import Destinations, Sources
from hookline.features.dead_letters.api import DeadLetters
from hookline.features.destinations.api import (
    FilterTests,
    Pausing,
    SecretRotation,
    get_destination_metrics,
)
from hookline.features.destinations.tester.api import DestinationTests, check_connection, check_receiver
from hookline.features.destinations.tester.preview import preview_destination
from hookline.features.events.api import Attempts, Events
from hookline.features.fleet.api import get_healthz, get_metrics, get_readyz, get_workers
from hookline.features.fleet.metrics import CountAnswers
from hookline.features.fleet.service import own_metrics
from hookline.features.insights.api import Metrics
from hookline.features.issues.api import Issues
from hookline.features.notices.api import Notices
from hookline.features.notifications.api import NotificationMessages, Notifications
from hookline.features.overview.api import get_status
from hookline.features.people.api import Persons
from hookline.features.privacy.api import DeletionRequests, SuppressionsApi
from hookline.features.replays.api import Replays
from hookline.features.search.api import search_everything
from hookline.features.settings.api import list_settings
from hookline.features.setup.api import send_test_event
from hookline.features.sources.api import get_schema
from hookline.features.usage.api import Usage, UsageDetails
from hookline.features.views.api import Views


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


BODY_BYTES_MAX = 4 * 1024 * 1024

Routes = Callable[[], Sequence[ControllerRouterHandler]]
"""Makes the routes of an application: this room does not know the pages, and loads none of them at the start."""

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


def build(services: Services, pages: Routes | None = None) -> ASGIApp:
    """Put together what control serves; raise UndeclaredRoute for the API, the pages' first request for theirs."""
    served: ASGIApp = checked(application(api_routes(), services))
    if pages is not None:
        routes = pages
        served = ApiBesidePages(served, Deferred(lambda: checked(application(routes(), services))))
    inner = HostGate(DatabaseGate(RateLimits(served)), services.settings)
    gated = SecurityHeaders(inner, over_tls=session_store(services).secure)
    whole = CountAnswers(Calls(gated, services), own_metrics(services))
    path = path_of(services.settings)
    return UnderPath(whole, path) if path else whole


class ApiBesidePages:
    """ASGI wrapper: what is below ``/api`` and the probes go to one application, everything else to the pages."""

    def __init__(self, api: ASGIApp, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        path = scope.get("path", "")
        app = self._api if path.startswith(API) or path in PROBES else self._pages
        await app(scope, receive, send)


def checked(app: Litestar) -> Litestar:
    """Return the application itself, once all its routes declare what they need; raise UndeclaredRoute."""
    check_needs(app)
    return app


def application(routes: Sequence[ControllerRouterHandler], services: Services | None = None) -> Litestar:
    """Return the routes with their guard; without services they can be looked at, not asked."""
    # What no route matches is answered by the application alone, so what the pages say then is taken up here.
    lost = [each.exception_handlers.get(NotFoundException) for each in routes if isinstance(each, Router)]
    return Litestar(
        route_handlers=routes,
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        state=State({"services": services}, deep_copy=False),
        exception_handlers={
            SignInNeeded: to_login,
            HTTPException: respond,
            Exception: respond,
            NotFoundException: next(filter(None, lost), respond),
        },
        guards=[require_need],
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )


def api_routes() -> Sequence[ControllerRouterHandler]:
    """Return the admin API, its description, and the probes."""
    return [api(), openapi.served(api), get_healthz, get_readyz, get_metrics]


def api() -> Router:
    """Everything below ``/api/v1``; what of it changes something is on the record."""
    return Router(
        "/api/v1",
        route_handlers=[
            Sources,
            Destinations,
            Audiences,
            ComputedTraits,
            Pausing,
            SecretRotation,
            FilterTests,
            DestinationTests,
            check_receiver,
            preview_destination,
            check_connection,
            Attempts,
            get_destination_metrics,
            get_schema,
            send_test_event,
            AudienceMembers,
            AudienceSyncs,
            ComputedTraitSyncs,
            TraitValues,
            list_settings,
            list_catalog,
            Kinds,
            get_kind,
            get_icon,
            Connections,
            Versions,
            AudiencePreviews,
            Persons,
            search_everything,
            DeadLetters,
            Replays,
            Issues,
            Views,
            Notices,
            Notifications,
            NotificationMessages,
            Events,
            Usage,
            UsageDetails,
            Metrics,
            get_workers,
            get_status,
            DeletionRequests,
            SuppressionsApi,
            Users,
            TokensApi,
            AuditEntries,
        ],
        middleware=[Idempotency, AuditTrail],
        dto=JsonBody,
        return_dto=None,
    )
