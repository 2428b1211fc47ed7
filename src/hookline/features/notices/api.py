"""``/api/v1/notices``: what Hookline has to say about itself."""

from __future__ import annotations

import time
from typing import Annotated, Literal, get_args

from litestar import Controller, get, post
from litestar.params import QueryParameter

from hookline.api.calls import note_unchanged
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, Listing, number_after
from hookline.api.problem import not_found
from hookline.features.notices.log import Notice
from hookline.features.notices.service import notice_log
from hookline.telemetry.notices import KINDS

State = Literal["open", "resolved"]
STATES: tuple[State, ...] = get_args(State)


class Notices(Controller):
    """Reading, and acknowledging; they are opened and resolved by what they tell of."""

    path = "/notices"

    @get(needs="viewer")
    async def list_notices(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        state_: Annotated[
            State | None, QueryParameter(name="state", description="Only open or only resolved notices.")
        ] = None,
        kind: Annotated[
            str | None,
            QueryParameter(
                max_length=100, description="Only notices of this kind.", schema_extra={"enum": list(KINDS)}
            ),
        ] = None,
        subject: Annotated[
            str | None,
            QueryParameter(
                max_length=100,
                description="Only notices about this: the id of a destination or source, the name of a role.",
            ),
        ] = None,
    ) -> Listing[Notice]:
        """List the newest notices about the system itself."""
        is_open = None if state_ is None else state_ == "open"
        found = notice_log(services).newest(limit + 1, number_after(after), is_open, kind, subject)
        page = found[:limit]
        return Listing(page, str(page[-1].id) if len(found) > limit else None)

    @get("/{id:str}", needs="viewer")
    async def get_notice(self, services: FromServices, notice_id: Id) -> Notice:
        """Return one notice."""
        notice = notice_log(services).get(int(notice_id)) if _is_id(notice_id) else None
        if notice is None:
            raise not_found("notice", notice_id)
        return notice

    @post("/{id:str}/acknowledge", status_code=200, needs="editor")
    async def acknowledge_notice(self, services: FromServices, notice_id: Id) -> Notice:
        """Mark a notice as seen."""
        before = notice_log(services).get(int(notice_id)) if _is_id(notice_id) else None
        if before is not None and before.acknowledged_at is not None:
            note_unchanged()
            return before
        now_ms = int(time.time() * 1000)
        notice = None if before is None else notice_log(services).acknowledge(int(notice_id), now_ms)
        if notice is None:
            raise not_found("notice", notice_id)
        return notice


def _is_id(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 19
