"""The URL that a request went to, by its number among those that its event became."""

from __future__ import annotations

from hookline.connections.kinds import STAND_IN, plan_of, shown_place, shown_url, with_stand_ins
from hookline.connections.model import Destination, WebhookSettings, is_sink
from hookline.events.body import render_plain
from hookline.events.timestamps import iso
from hookline.events.view import fields_of
from hookline.journal.record import Record
from hookline.kinds.requests import Plan, event_fields
from hookline.route.filters import Filters, filters_of


class RequestUrls:
    """The URLs of one destination as it was at some time, as everybody may see them.

    Of a webhook the number says all, and a sink has one place. Of another kind it counts the requests that the event
    became, so the event is asked again which these were; ``of`` returns an empty text where it is gone and more than
    one is possible.
    """

    def __init__(self, destination: Destination) -> None:
        self._fixed: tuple[str, ...] | None = None
        """Those of a webhook by number; of a sink its place."""
        self.is_sink = is_sink(destination.kind)
        self._plan: Plan | None = None
        self._filters: Filters | None = None
        if isinstance(destination.settings, WebhookSettings):
            self._fixed = tuple(webhook.url for webhook in destination.settings.webhooks)
            return
        if self.is_sink:
            self._fixed = (shown_place(destination),)
            return
        try:
            self._plan = plan_of(with_stand_ins(destination))
            filters = filters_of(destination)
        except ValueError:  # what deliver could not use either sent nothing
            return
        self._filters = filters if filters is not None and filters.edits else None

    @property
    def all(self) -> tuple[str, ...]:
        """Return every URL that an attempt may name, once."""
        if self._fixed is not None:
            return self._fixed
        requests = () if self._plan is None else self._plan.requests
        return tuple(dict.fromkeys(shown_url(each, (STAND_IN,)) for each in requests))

    @property
    def asks_event(self) -> bool:
        """Return whether the number alone does not say it."""
        return self._plan is not None and len(self._plan.requests) > 1

    def of(self, number: int, record: Record | None) -> str:
        """Return the URL of an event's request of this number, from 0."""
        if self._fixed is not None:
            return self._fixed[number] if number < len(self._fixed) else ""
        if self._plan is None or not self._plan.requests:
            return ""
        indexes = [0] if len(self._plan.requests) == 1 else self._matching(self._plan, record)
        if number >= len(indexes):
            return ""
        return shown_url(self._plan.requests[indexes[number]], (STAND_IN,))

    def _matching(self, plan: Plan, record: Record | None) -> list[int]:
        if record is None or record.erased:
            return []
        body = render_plain(record)
        if self._filters is not None:
            body = self._filters.body(record, body, canonical=False)
        return plan.matching(event_fields(fields_of(record, body), plan.settings, iso(record.received_at)))
