"""One journal record on its way: rendered at most once per form, shared by all lanes that take it."""

from __future__ import annotations

import msgspec

from hookline.events.body import message_id_header, render_canonical, render_plain
from hookline.journal.record import Record


class Event(msgspec.Struct, gc=False, eq=False):
    """A record with its place and its rendered bodies. A struct, because one is made per record."""

    place: int
    record: Record
    _canonical: bytes | None = None
    _plain: bytes | None = None
    _message_id: bytes | None = None

    def canonical(self) -> bytes:
        """The body whose bytes are signed (DESIGN 6.2)."""
        if self._canonical is None:
            self._canonical = render_canonical(self.record)
        return self._canonical

    def plain(self) -> bytes:
        """The unsigned body: numbers stay as the caller wrote them."""
        if self._plain is None:
            self._plain = render_plain(self.record)
        return self._plain

    def message_id(self) -> bytes:
        """The value of ``X-Message-Id``, percent-encoded."""
        if self._message_id is None:
            self._message_id = message_id_header(self.record.message_id)
        return self._message_id
