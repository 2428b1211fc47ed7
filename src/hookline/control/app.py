"""The admin API as one ASGI application: routes, guard, error answers, and the gates around them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, ControllerRouterHandler

from hookline.control.access import require_access
from hookline.control.apply import Connections
from hookline.control.catalog import list_catalog
from hookline.control.dead_letters import DeadLetters
from hookline.control.events import Events
from hookline.control.filter_tests import FilterTests
from hookline.control.host_gate import HostGate
from hookline.control.notices import Notices
from hookline.control.objects import Destinations, Sources
from hookline.control.openapi import get_openapi
from hookline.control.own_metrics import CountAnswers
from hookline.control.pausing import Pausing
from hookline.control.probes import get_healthz, get_metrics, get_readyz
from hookline.control.problem import respond
from hookline.control.replays import Replays
from hookline.control.secret_rotation import SecretRotation
from hookline.control.security_headers import SecurityHeaders
from hookline.control.services import Services
from hookline.control.usage import Usage

BODY_BYTES_MAX = 4 * 1024 * 1024

Extension = Callable[[], Sequence[ControllerRouterHandler]]
"""Further routes, such as the pages: this room does not know them."""


def build(services: Services, extensions: Sequence[Extension] = ()) -> ASGIApp:
    """Put the application together."""
    further = [handler for extension in extensions for handler in extension()]
    app = Litestar(
        route_handlers=[api(), get_openapi, get_healthz, get_readyz, get_metrics, *further],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        state=State({"services": services}, deep_copy=False),
        exception_handlers={HTTPException: respond, Exception: respond},
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )
    gated = SecurityHeaders(HostGate(app, services.settings), over_tls=services.sessions.secure)
    return CountAnswers(gated, services.own_metrics)


def api() -> Router:
    """Everything below ``/api/v1``; all of it asks who is calling."""
    return Router(
        "/api/v1",
        route_handlers=[
            Sources,
            Destinations,
            Pausing,
            SecretRotation,
            FilterTests,
            Replays,
            DeadLetters,
            Events,
            Connections,
            Notices,
            Usage,
            list_catalog,
        ],
        guards=[require_access],
    )
