"""All routes of the pages, for ``control.app.build``: each screen has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router
from litestar.types import ControllerRouterHandler

from hookline.api.auth.access import PageRefused
from hookline.database.sqlite import DatabaseAway
from hookline.features.accounts.pages import Joining, PeopleScreens, SignIn
from hookline.features.audiences.pages.routes import AudienceScreens, TraitScreens
from hookline.features.dead_letters.pages import show_dead_letter
from hookline.features.destinations.pages.routes import (
    CatalogScreens,
    show_destination,
    show_destination_tab,
    show_destinations,
    show_new_destination,
)
from hookline.features.events.pages import show_debugger, show_event
from hookline.features.notices.pages import show_notices
from hookline.features.overview.pages import show_overview
from hookline.features.people.pages import PersonScreens
from hookline.features.privacy.pages import DeletionScreens
from hookline.features.replays.pages import show_replay, show_replays
from hookline.features.settings.pages import (
    AuditScreens,
    show_server_settings,
    show_settings,
    show_version,
    show_versions,
)
from hookline.features.setup.pages import show_setup
from hookline.features.sources.pages import SourceScreens
from hookline.features.usage.pages import download_usage, show_usage
from hookline.web.assets import get_asset
from hookline.web.errors import away_page, refused_page, show_errors


def routes() -> Sequence[ControllerRouterHandler]:
    """Return the screens behind the sign-in, the sign-in itself, and what they are drawn with."""
    handlers: list[ControllerRouterHandler] = [
        show_overview,
        show_debugger,
        show_event,
        SourceScreens,
        CatalogScreens,
        show_setup,
        show_usage,
        download_usage,
        show_settings,
        show_versions,
        show_version,
        PeopleScreens,
        PersonScreens,
        DeletionScreens,
        AuditScreens,
        show_server_settings,
        show_destinations,
        show_new_destination,
        show_destination,
        show_destination_tab,
        show_dead_letter,
        AudienceScreens,
        TraitScreens,
        show_replays,
        show_replay,
        show_notices,
        SignIn,
        Joining,
        show_errors,
        get_asset,
    ]
    return [
        Router("/", route_handlers=handlers, exception_handlers={PageRefused: refused_page, DatabaseAway: away_page})
    ]
