"""One journal record on its way: rendered at most once per form, shared by all lanes that take it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hookline.events.body import message_id_header, message_id_headers, render_all_canonical, render_plain
from hookline.journal.record import Record

Rendered = tuple[bytes, bytes]
"""The value of ``X-Message-Id``, percent-encoded, and a body."""


class Event(msgspec.Struct, gc=False, eq=False):
    """A record with its place and its rendered bodies. A struct, because one is made per record."""

    place: int
    record: Record
    _canonical: Rendered | None = None
    _plain: Rendered | None = None

    def canonical(self) -> Rendered:
        """The value of ``X-Message-Id`` and the body whose bytes are signed (DESIGN 6.2)."""
        return self._canonical or Event.all_canonical((self,))[0]

    @staticmethod
    def all_canonical(events: Sequence[Event]) -> list[Rendered]:
        """What ``canonical`` returns for each of several events, rendered together: that costs about half."""
        missing = [event for event in events if event._canonical is None]
        if missing:
            records = [event.record for event in missing]
            headers = message_id_headers([record.message_id for record in records])
            rendered = list(zip(headers, render_all_canonical(records), strict=True))
            for event, made in zip(missing, rendered, strict=True):
                event._canonical = made
            if len(missing) == len(events):
                return rendered
        return [event._canonical or event.canonical() for event in events]  # another lane has had some of them

    def plain(self) -> Rendered:
        """The same with the unsigned body: numbers stay as the caller wrote them."""
        made = self._plain
        if made is None:
            record = self.record
            made = self._plain = message_id_header(record.message_id), render_plain(record)
        return made
