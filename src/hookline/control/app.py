"""What control serves: the admin API, and the pages when the first is asked for, behind the gates around them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from hookline.control import openapi
from hookline.control.access import API, SignInNeeded, check_needs, require_need, to_login
from hookline.control.apply import Connections
from hookline.control.attempts import Attempts
from hookline.control.audience_members import AudienceMembers
from hookline.control.audience_previews import AudiencePreviews
from hookline.control.audit.trail import AuditTrail
from hookline.control.audit_entries import AuditEntries
from hookline.control.call import Calls
from hookline.control.catalog import get_icon, get_kind, list_catalog
from hookline.control.database_gate import DatabaseGate
from hookline.control.dead_letters import DeadLetters
from hookline.control.deferred import Deferred
from hookline.control.definitions import Audiences, ComputedTraits
from hookline.control.deletion_requests import DeletionRequests
from hookline.control.destination_metrics import get_destination_metrics
from hookline.control.effective_settings import list_settings
from hookline.control.events import Events
from hookline.control.filter_tests import FilterTests
from hookline.control.host_gate import HostGate
from hookline.control.idempotency.middleware import Idempotency
from hookline.control.json_body import JsonBody
from hookline.control.notices import Notices
from hookline.control.objects import Destinations, Sources
from hookline.control.own_metrics import CountAnswers
from hookline.control.pausing import Pausing
from hookline.control.persons import Persons
from hookline.control.probes import get_healthz, get_metrics, get_readyz
from hookline.control.problem import respond
from hookline.control.rate_limits import RateLimits
from hookline.control.replays import Replays
from hookline.control.secret_rotation import SecretRotation
from hookline.control.security_headers import SecurityHeaders
from hookline.control.series import Metrics
from hookline.control.services import Services
from hookline.control.source_schema import get_schema
from hookline.control.suppressions import SuppressionsApi
from hookline.control.syncs import AudienceSyncs, ComputedTraitSyncs
from hookline.control.tester.destination_tests import DestinationTests
from hookline.control.tokens import TokensApi
from hookline.control.trait_values import TraitValues
from hookline.control.under_path import UnderPath, path_of
from hookline.control.usage import Usage
from hookline.control.usage_details import UsageDetails
from hookline.control.users import Users
from hookline.control.versions import Versions
from hookline.control.workers import get_workers

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
    gated = SecurityHeaders(inner, over_tls=services.sessions.secure)
    whole = CountAnswers(Calls(gated, services), services.own_metrics)
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
    return Litestar(
        route_handlers=routes,
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        state=State({"services": services}, deep_copy=False),
        exception_handlers={SignInNeeded: to_login, HTTPException: respond, Exception: respond},
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
            Attempts,
            get_destination_metrics,
            get_schema,
            AudienceMembers,
            AudienceSyncs,
            ComputedTraitSyncs,
            TraitValues,
            list_settings,
            list_catalog,
            get_kind,
            get_icon,
            Connections,
            Versions,
            AudiencePreviews,
            Persons,
            DeadLetters,
            Replays,
            Notices,
            Events,
            Usage,
            UsageDetails,
            Metrics,
            get_workers,
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
