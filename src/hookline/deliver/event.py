"""One journal record on its way. Where several lanes take it, they share it, and what is rendered is kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hookline.events.body import message_id_header, message_id_headers, render_all_canonical, render_plain
from hookline.journal.record import Record

Rendered = tuple[bytes, bytes]
"""The value of ``X-Message-Id``, percent-encoded, and a body."""


class Event(msgspec.Struct, gc=False, eq=False):
    """A record with its position and its rendered bodies. A struct, because one is made per record."""

    position: int
    record: Record
    shared: bool = False
    """Whether it is rendered for more than one request: then what was made is kept for the next."""
    _canonical: Rendered | None = None
    _plain: Rendered | None = None

    def canonical(self) -> Rendered:
        """Return the value of ``X-Message-Id`` and the body whose bytes are signed."""
        if self._canonical is not None:
            return self._canonical
        headers, bodies = Event.all_canonical((self,))
        return headers[0], bodies[0]

    @staticmethod
    def all_canonical(events: Sequence[Event]) -> tuple[list[bytes], list[bytes]]:
        """Return what ``canonical`` returns for each of several events, rendered together: that costs about half."""
        if not [event for event in events if event.shared]:
            return _render([event.record for event in events])
        missing = [event for event in events if event._canonical is None]
        made = _render([event.record for event in missing])
        for event, header, body in zip(missing, *made, strict=True):
            event._canonical = header, body
        both = [event.canonical() for event in events]
        return [header for header, _ in both], [body for _, body in both]

    def plain(self) -> Rendered:
        """Return the same with the unsigned body: numbers stay as the caller wrote them."""
        made = self._plain
        if made is None:
            record = self.record
            made = self._plain = message_id_header(record.message_id), render_plain(record)
        return made


def _render(records: Sequence[Record]) -> tuple[list[bytes], list[bytes]]:
    return message_id_headers([record.message_id for record in records]), render_all_canonical(records)
