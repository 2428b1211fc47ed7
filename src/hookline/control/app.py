"""The admin API as an application, and what all applications of control share; the pages are another."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException
from litestar.types import ControllerRouterHandler

from hookline.api import openapi
from hookline.api.audit.trail import AuditTrail
from hookline.api.auth.access import SignInNeeded, check_needs, require_need, to_login
from hookline.api.handlers import respond
from hookline.api.idempotency import Idempotency
from hookline.api.listing import JsonBody
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
from hookline.features.fleet.api import get_workers
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

BODY_BYTES_MAX = 4 * 1024 * 1024


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
    """Return the admin API and its description."""
    return [api(), openapi.served(api)]


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
