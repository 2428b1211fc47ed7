"""Write the canonical bodies of ordinary calls, as nearly all are: many are decoded and written together. A batch's
context lies under the event's own.

Such a call becomes the body as it is, in the fixed order of its fields, behind version and type and with our timestamp.
Its context, which an SDK sends with many events, is kept in canonical form, a batch's merged in. Whatever needs a
second look (something to move, to make a string of, numbers that msgspec writes in another way) is left to ``body``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.events import canonical
from hookline.events.accepted import Accepted
from hookline.remembered import Remembered

ENVELOPES_BYTES_MAX = 128 * 1024
"""Envelopes kept at hand decoded, which takes up to twenty times as much; the events of one batch share one."""


class _Envelope(msgspec.Struct, gc=False):
    context: dict[str, Raw] | None = None


def object_of(raw: Raw | UnsetType) -> Raw | UnsetType:
    """Return the value if it is an object."""
    return raw if raw is not UNSET and memoryview(raw)[0] == _BRACE else UNSET


def context_of(envelope: bytes) -> dict[str, Raw] | None:
    """Return the context of a batch; raise ValueError where msgspec cannot read it."""
    return _envelopes[envelope]


def not_counted(_: object) -> int:
    """Return 0: what a decoded envelope takes is allowed for in the bound on envelopes."""
    return 0


def _decoded(envelope: bytes) -> dict[str, Raw] | None:
    return _decode_envelope(envelope).context


def merge(under: dict[str, Raw] | None, over: Raw | UnsetType) -> Any:
    """Return what both say, with the word of ``over`` where they differ; UNSET where neither says anything."""
    if under is None:
        return over
    if over is UNSET:
        return under
    merged: dict[str, Any] = dict(under)
    for key, value in decode_fields(over).items():
        lower = under.get(key)
        if lower is not None and object_of(lower) is not UNSET and object_of(value) is not UNSET:
            merged[key] = merge(decode_fields(lower), value)
        else:
            merged[key] = value
    return merged


_BRACE = ord("{")
decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_envelopes = Remembered(_decoded, ENVELOPES_BYTES_MAX, value_bytes=not_counted)


BODY_VERSION = 1
"""The value of ``version`` in every body but ``delete`` (SPEC section 9)."""

TOGETHER_BYTES_MAX = 256 * 1024
"""Calls longer than this in all are taken one by one: the memory is needed twice."""

CONTEXTS_BYTES_MAX = 4 * 1024 * 1024
CONTEXT_BYTES_MAX = 4 * 1024
"""Contexts kept beside their canonical form, in all and of one with both."""

Name = Annotated[str, msgspec.Meta(min_length=1)] | None
"""A string as it is sent; one that is empty or no string is for the other way."""


class _Call(msgspec.Struct, gc=False, omit_defaults=True):
    """A caller's object that becomes the body as it is, behind version and type, with our timestamp; see ``body``."""

    userId: Name = None
    anonymousId: Name = None
    timestamp: Any = None
    event: Name = None
    name: Name = None
    category: Name = None
    groupId: Name = None
    previousId: None = None
    """One that is given has another name in the body, and comes later."""
    properties: dict[str, Any] | None = None
    traits: dict[str, Any] | None = None
    context: Raw | UnsetType = UNSET


def render_ordinary(records: Sequence[Accepted]) -> list[bytes | None]:
    """Return the canonical body of each call, None for one that is not ordinary."""
    if not records:
        return []
    kinds = [record.type for record in records]
    calls = _decode_together(records, kinds)
    if calls is None:
        # One of them is for ``body``, which does not take the others along.
        return [None] if len(records) == 1 else [render_ordinary((record,))[0] for record in records]
    ends = _ends(records, kinds, calls)
    lines = _encode_lines(calls)
    if canonical.is_canonical(lines):
        # Without its braces a line is what lies between a body's beginning and its context. Strings have no line ends.
        rendered = zip(map(_beginning_of, kinds), lines[1:-2].split(b"}\n{"), ends, strict=True)
        if all(ends):
            return list(map(_join, rendered))  # type: ignore[arg-type]  # none is None
        return [end and _join((beginning, content, end)) for beginning, content, end in rendered]
    if len(records) == 1:
        return [None]
    return [render_ordinary((record,))[0] for record in records]


def _decode_together(records: Sequence[Accepted], kinds: Sequence[str]) -> list[_Call] | None:
    """Return the calls' fields; None when one of the calls is not ordinary, or they are too long for one go."""
    if not _KINDS.issuperset(kinds):
        return None
    written = [record.body for record in records]
    if len(written) > 1 and sum(map(len, written)) > TOGETHER_BYTES_MAX:
        return None
    written[0] = b"[" + written[0]
    written[-1] += b"]"
    try:
        calls = _decode_list(b",".join(written))
    except (ValueError, RecursionError):
        return None
    return calls if len(calls) == len(written) else None


def _ends(records: Sequence[Accepted], kinds: Sequence[str], calls: Sequence[_Call]) -> list[bytes | None]:
    """Make the calls' fields those of the bodies, but for the context; return the bodies' ends, from the context on.

    None when something has to be looked for, or stands elsewhere in the body.
    """
    ends: list[bytes | None] = []
    end: bytes | None = b"}"
    last: Raw | None = None
    for record, kind, call in zip(records, kinds, calls, strict=True):
        context = call.context
        if record.envelope is not None:
            call.context = UNSET
            end, last = _merged_ends[record.envelope, b"" if context is UNSET else bytes(context)], None
        elif context is UNSET:
            end, last = b"}", None
        else:
            call.context = UNSET
            if context != last:  # as within a batch it often is
                end, last = _context_ends[bytes(context)], context
        call.timestamp = record.timestamp
        if kind == "track":
            if call.properties is None:
                call.properties = _EMPTY
            ends.append(end)
        else:
            ends.append(end if _has_its_fields(call, kind) else None)
    return ends


def _has_its_fields(call: _Call, kind: str) -> bool:
    """Put ``{}`` for what a body of its type always has; False when that, or another name, has to be looked for."""
    if kind == "page":
        if not call.properties:
            call.properties = _EMPTY
            return call.traits is None
        return True
    if kind == "group" and call.traits is None:
        call.traits = _EMPTY
    return kind in ("screen", "group") or (kind == "identify" and call.traits is not None)


def _context_end(written: bytes) -> bytes:
    return b',"context":%b}' % canonical.canonicalize(written) if written[0] == ord("{") else b"}"


def _merged_end(pair: tuple[bytes, bytes]) -> bytes | None:
    """Return the same where a batch's context lies under the event's own; None for what msgspec cannot read exactly."""
    envelope, written = pair
    try:
        context = merge(context_of(envelope), object_of(Raw(written) if written else UNSET))
        return b"}" if context is UNSET else b',"context":%b}' % canonical.canonicalize(_encode(context))
    except (ValueError, RecursionError):
        return None


def _pair_bytes(pair: tuple[bytes, bytes]) -> int:
    return len(pair[0]) + len(pair[1])


_EMPTY: dict[str, Any] = {}
_join = b"".join
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_list = msgspec.json.Decoder(list[_Call], float_hook=canonical.known_float).decode
_encode = msgspec.json.Encoder().encode
_context_ends = Remembered(_context_end, CONTEXTS_BYTES_MAX, CONTEXT_BYTES_MAX)
"""The end of a body from its context on: an SDK sends the same context with many events."""
_merged_ends = Remembered(_merged_end, CONTEXTS_BYTES_MAX, CONTEXT_BYTES_MAX, key_bytes=_pair_bytes)
"""The same by a batch's envelope and an event's own context."""
_BEGINNINGS = {
    kind: b'{"version":%d,"type":"%b",' % (BODY_VERSION, kind.encode())
    for kind in ("track", "page", "screen", "identify", "group")
}
_beginning_of = _BEGINNINGS.__getitem__
_KINDS = frozenset(_BEGINNINGS)
