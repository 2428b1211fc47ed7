"""All routes of the pages, for ``control.front.build``: each screen has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router
from litestar.exceptions import NotFoundException
from litestar.types import ControllerRouterHandler

from hookline.api.auth.access import PageRefused
from hookline.database.sqlite import DatabaseAway
from hookline.features.accounts.pages import SCREENS as ACCOUNTS
from hookline.features.audiences.pages.routes import SCREENS as AUDIENCES
from hookline.features.catalog.pages import SCREENS as CATALOG
from hookline.features.dead_letters.pages import SCREENS as DEAD_LETTERS
from hookline.features.destinations.pages.routes import SCREENS as DESTINATIONS
from hookline.features.events.pages import SCREENS as EVENTS
from hookline.features.issues.pages import SCREENS as ISSUES
from hookline.features.notices.pages import SCREENS as NOTICES
from hookline.features.notifications.pages import SCREENS as NOTIFICATIONS
from hookline.features.overview.pages import SCREENS as OVERVIEW
from hookline.features.people.pages import SCREENS as PEOPLE
from hookline.features.privacy.pages import SCREENS as PRIVACY
from hookline.features.replays.pages import SCREENS as REPLAYS
from hookline.features.settings.pages import SCREENS as SETTINGS
from hookline.features.setup.pages import SCREENS as SETUP
from hookline.features.sources.pages import SCREENS as SOURCES
from hookline.features.usage.pages import SCREENS as USAGE
from hookline.web.docs import doc_of, list_docs, show_doc
from hookline.web.errors import away_page, get_asset, nothing_page, refused_page
from hookline.web.rendering import Screens, show_rail

SCREENS: tuple[Screens, ...] = (
    OVERVIEW,
    EVENTS,
    SOURCES,
    DESTINATIONS,
    CATALOG,
    ISSUES,
    AUDIENCES,
    PEOPLE,
    PRIVACY,
    USAGE,
    SETTINGS,
    SETUP,
    DEAD_LETTERS,
    REPLAYS,
    NOTICES,
    NOTIFICATIONS,
    ACCOUNTS,
)
"""In the order of the rail."""
RAIL = tuple(stop for each in SCREENS for stop in each.rail)
DOCS = {screen: path for each in SCREENS for screen, path in each.docs.items()}
"""The page of the documentation by the screens it is about."""


def routes() -> Sequence[ControllerRouterHandler]:
    """Return the screens behind the sign-in, the sign-in itself, and what they are drawn with."""
    show_rail(RAIL, lambda template, here: doc_of(template, here, DOCS))
    handlers = [handler for each in SCREENS for handler in each.handlers]
    return [
        Router(
            "/",
            route_handlers=[*handlers, list_docs, show_doc, get_asset],
            exception_handlers={PageRefused: refused_page, DatabaseAway: away_page, NotFoundException: nothing_page},
        )
    ]
