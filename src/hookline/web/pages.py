"""All routes of the pages, for ``control.app.build``: each screen has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router
from litestar.types import ControllerRouterHandler

from hookline.control.accounts.access import PageRefused
from hookline.database.sqlite import DatabaseAway
from hookline.web.assets import get_asset
from hookline.web.away_page import away_page
from hookline.web.catalog_screens import CatalogScreens
from hookline.web.dead_letter_screen import show_dead_letter
from hookline.web.definitions.screens import AudienceScreens, TraitScreens
from hookline.web.deletion_screens import DeletionScreens
from hookline.web.destination.screens import (
    show_destination,
    show_destination_tab,
    show_destinations,
    show_new_destination,
)
from hookline.web.error_reference import show_errors
from hookline.web.events import show_debugger, show_event
from hookline.web.joining import Joining
from hookline.web.notices import show_notices
from hookline.web.overview import show_overview
from hookline.web.people_screens import PeopleScreens
from hookline.web.person import PersonScreens
from hookline.web.refused_page import refused_page
from hookline.web.replays import show_replay, show_replays
from hookline.web.settings import AuditScreens, show_server_settings, show_settings, show_version, show_versions
from hookline.web.setup import show_setup
from hookline.web.sign_in import SignIn
from hookline.web.sources import SourceScreens
from hookline.web.usage import download_usage, show_usage


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
