"""``/api/v1/audit-log``: who did what, newest first."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, get
from litestar.params import QueryParameter

from hookline.api.audit.log import AuditEntry, audit_log
from hookline.api.handlers import FromServices
from hookline.api.listing import TIME, After, Id, Limit, Listing, id_number, milliseconds, number_after
from hookline.api.problem import not_found


class AuditEntries(Controller):
    """Reading only; the log is written by what it tells of."""

    path = "/audit-log"

    @get(needs="owner")
    async def list_audit_log(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        actor: Annotated[
            str | None,
            QueryParameter(
                max_length=1_000, description="Only what this account, token (`token NAME`) or the `admin token` did."
            ),
        ] = None,
        action: Annotated[
            str | None, QueryParameter(max_length=1_000, description="Only this action, such as `create_destination`.")
        ] = None,
        target: Annotated[
            str | None,
            QueryParameter(
                max_length=1_000, description="Only what was done to this object, such as `destinations/crm`."
            ),
        ] = None,
        since: Annotated[
            str | None,
            QueryParameter(
                name="from", max_length=64, description="Only what happened at or after this time.", schema_extra=TIME
            ),
        ] = None,
        until: Annotated[
            str | None,
            QueryParameter(
                name="to", max_length=64, description="Only what happened before this time.", schema_extra=TIME
            ),
        ] = None,
    ) -> Listing[AuditEntry]:
        """List who did what, newest first. Entries are kept for a year, at most a million. Refused calls without a
        known account or token are counted by the hour and kept for a month. Calls that change nothing, and saved views
        that nobody else sees, are left out."""
        found = audit_log(services).newest(
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

    @get("/{id:str}", needs="owner")
    async def get_audit_entry(self, services: FromServices, entry_id: Id) -> AuditEntry:
        """Return one entry of the audit log."""
        number = id_number(entry_id)
        entry = None if number is None else audit_log(services).get(number)
        if entry is None:
            raise not_found("audit entry", entry_id)
        return entry
