"""``/settings/audit-log``: who did what, and what became of each field."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.control.listing import After, id_number, number_after
from hookline.control.services import FromServices
from hookline.web.screen import screen, unknown
from hookline.web.settings_tabs import tabs

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
        found = services.audit.newest(
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
        entry = None if number is None else services.audit.get(number)
        if entry is None:
            hint = "Entries are kept for a year."
            return unknown(request, "settings", "Audit log", "There is no entry with this number", id, hint)
        return screen(request, "settings_audit_entry.html", "settings", entry=entry, link=page_of_object(entry.target))


def page_of_object(target: str) -> str:
    """Return where the object of an entry is shown, empty when there is no such page."""
    kind, _, id = target.partition("/")
    return PAGES_OF_OBJECTS.get(kind, "") + quote(id, safe="") if id and kind in PAGES_OF_OBJECTS else ""
