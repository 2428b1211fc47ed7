"""The pages of settings, tokens, versions and the audit log."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.audit.log import audit_log
from hookline.api.caller import Need
from hookline.api.calls import the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import After, id_number, number_after
from hookline.api.services import connections_past
from hookline.features.settings.api import effective_settings
from hookline.setting_text import written
from hookline.web.rendering import Screens, Stop, redirect, screen, unknown

TABS: tuple[tuple[str, str, Need], ...] = (
    ("Your account", "/settings/account", "viewer"),
    ("Notifications", "/settings/notifications", "viewer"),
    ("Accounts", "/settings/people", "owner"),
    ("Tokens", "/settings/tokens", "owner"),
    ("Versions", "/settings/versions", "viewer"),
    ("Audit log", "/settings/audit-log", "owner"),
    ("Server", "/settings/server", "owner"),
)


def tabs(here: str) -> list[tuple[str, str, bool]]:
    """Return the tabs that the caller may open, one of them the page's own."""
    caller = the_caller()
    return [(title, href, title == here) for title, href, need in TABS if caller.may(need)]


VERSIONS_ON_A_PAGE = 50
OBJECTS_ON_A_PAGE = 20


@get("/settings", needs="viewer")
async def show_settings() -> Response[str]:
    """Lead to the first tab."""
    return redirect("/settings/account")


@get("/settings/versions", needs="viewer")
async def show_versions(request: Request[Any, Any, Any], services: FromServices, after: After = None) -> Response[str]:
    """List what changed the connections."""
    found = connections_past(services).newest(VERSIONS_ON_A_PAGE + 1, number_after(after))
    shown = found[:VERSIONS_ON_A_PAGE]
    return screen(
        request,
        "settings_versions.html",
        "settings",
        tabs=tabs("Versions"),
        versions=shown,
        in_force=services.store.version,
        first="/settings/versions" if after else "",
        after=f"/settings/versions?after={shown[-1].version}" if len(found) > len(shown) else "",
    )


@get("/settings/versions/{number:int}", needs="viewer")
async def show_version(request: Request[Any, Any, Any], services: FromServices, number: FromPath[int]) -> Response[str]:
    """Show one change field by field."""
    version = connections_past(services).version(number, OBJECTS_ON_A_PAGE)
    if version is None:
        hint = "The newest version is first in the list of versions."
        return unknown(request, "settings", "Version", "There is no version with this number", str(number), hint)
    in_force = services.store.version
    return screen(request, "settings_version.html", "settings", version=version, in_force=in_force)


@get("/settings/server", needs="owner")
async def show_server_settings(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show every setting with its origin."""
    found = effective_settings(services.settings, services.origins)
    rows = [(each.key, written(each.key, each.value), each.source) for each in found]
    return screen(request, "settings_server.html", "settings", tabs=tabs("Server"), rows=rows)


ENTRIES_ON_A_PAGE = 50
PAGES_OF_OBJECTS = {
    "sources": "/sources/",
    "destinations": "/destinations/",
    "users": "/settings/people/",
    "tokens": "/settings/tokens/",
}

PageRequest = Request[Any, Any, Any]
Word = Annotated[str, QueryParameter(max_length=1_000)]


class AuditScreens(Controller):
    """Looking only; nothing changes the log."""

    path = "/settings/audit-log"

    @get(needs="owner")
    async def show_audit_log(
        self,
        request: PageRequest,
        services: FromServices,
        actor: Word = "",
        action: Word = "",
        target: Word = "",
        after: After = None,
    ) -> Response[str]:
        """List the newest entries that match."""
        wanted = {"actor": actor.strip(), "action": action.strip().replace(" ", "_"), "target": target.strip()}
        given = {name: value for name, value in wanted.items() if value}
        older_than = number_after(after)
        found = audit_log(services).newest(
            ENTRIES_ON_A_PAGE + 1, older_than, given.get("actor"), given.get("action"), given.get("target")
        )
        entries = found[:ENTRIES_ON_A_PAGE]
        first = "/settings/audit-log" + (f"?{urlencode(given)}" if given else "")
        older = urlencode({**given, "after": entries[-1].id}) if len(found) > len(entries) else ""
        return screen(
            request,
            "settings_audit_log.html",
            "settings",
            tabs=tabs("Audit log"),
            entries=entries,
            wanted=wanted,
            filtered=bool(given),
            first=first if after else "",
            after=f"/settings/audit-log?{older}" if older else "",
        )

    @get("/{id:str}", needs="owner")
    async def show_entry(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show one entry with every field it changed."""
        number = id_number(id)
        entry = None if number is None else audit_log(services).get(number)
        if entry is None:
            hint = "Entries are kept for a year."
            return unknown(request, "settings", "Audit log", "There is no entry with this number", id, hint)
        return screen(request, "settings_audit_entry.html", "settings", entry=entry, link=page_of_object(entry.target))


def page_of_object(target: str) -> str:
    """Return where the object of an entry is shown, empty when there is no such page."""
    kind, _, id = target.partition("/")
    return PAGES_OF_OBJECTS.get(kind, "") + quote(id, safe="") if id and kind in PAGES_OF_OBJECTS else ""


SCREENS = Screens(
    (
        show_settings,
        show_versions,
        show_version,
        AuditScreens,
        show_server_settings,
    ),
    (Stop("settings", "Settings", "/settings", "t", "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4"),),
    docs={
        "settings": "reference/settings",
        "settings_people.html": "how-to/let-people-in",
        "settings_person.html": "how-to/let-people-in",
        "settings_tokens.html": "how-to/let-people-in",
        "settings_token.html": "how-to/let-people-in",
        "settings_account.html": "how-to/let-people-in",
    },
)
