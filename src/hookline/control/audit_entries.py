"""``/api/v1/audit-log``: who did what, newest first."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, get
from litestar.params import FromPath, QueryParameter

from hookline.control.audit.entry import AuditEntry
from hookline.control.listing import After, Limit, Listing, id_number, number_after
from hookline.control.moment import milliseconds
from hookline.control.problem import not_found
from hookline.control.services import FromServices

Word = Annotated[str | None, QueryParameter(max_length=1_000)]


class AuditEntries(Controller):
    """Reading only; the log is written by what it tells of."""

    path = "/audit-log"

    @get(needs="owner")
    async def list_audit_log(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        actor: Word = None,
        action: Word = None,
        target: Word = None,
        since: Annotated[str | None, QueryParameter(name="from", max_length=64)] = None,
        until: Annotated[str | None, QueryParameter(name="to", max_length=64)] = None,
    ) -> Listing[AuditEntry]:
        """Return the newest entries: all, or of one actor, one action, one object, or a stretch of time."""
        found = services.audit.newest(
            limit + 1,
            number_after(after),
            actor,
            action,
            target,
            milliseconds("from", since),
            milliseconds("to", until),
        )
        page = found[:limit]
        return Listing(page, str(page[-1].id) if len(found) > limit else None)

    @get("/{entry_id:str}", needs="owner")
    async def get_audit_entry(self, services: FromServices, entry_id: FromPath[str]) -> AuditEntry:
        """Return one entry."""
        number = id_number(entry_id)
        entry = None if number is None else services.audit.get(number)
        if entry is None:
            raise not_found("audit entry", entry_id)
        return entry
