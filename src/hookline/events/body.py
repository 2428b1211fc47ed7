"""The JSON body of a webhook request, made from the caller's JSON.

Two ways give the same bytes. Nearly all calls are ordinary: many are decoded and written together
(``render_ordinary``). Such a call becomes the body as it is, in the fixed order of its fields, behind version and type
and with our timestamp; its context, which an SDK sends with many events, is kept in canonical form, a batch's merged in
under it. Where something must be moved, merged or made a string first, the fields are looked at one by one
(``render_plain``), and the whole is brought into canonical form. What msgspec cannot read at all (a name with half a
character) goes the slow way through a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.events import canonical
from hookline.events.accepted import Accepted
from hookline.events.canonical import Tree
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


MERGED_LEVELS_MAX = 8
"""Of objects within each other that both an event and its batch give: each level is decoded anew. Below, the event's
stands."""


def merge(under: dict[str, Raw] | None, over: Raw | UnsetType, levels: int = MERGED_LEVELS_MAX) -> Any:
    """Return what both say, with the word of ``over`` where they differ; UNSET where neither says anything."""
    if under is None:
        return over
    if over is UNSET:
        return under
    merged: dict[str, Any] = dict(under)
    for key, value in decode_fields(over).items():
        lower = under.get(key)
        if levels > 1 and lower is not None and object_of(lower) is not UNSET and object_of(value) is not UNSET:
            merged[key] = merge(decode_fields(lower), value, levels - 1)
        else:
            merged[key] = value
    return merged


_BRACE = ord("{")
decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_envelopes = Remembered(_decoded, ENVELOPES_BYTES_MAX, value_bytes=not_counted)


BODY_VERSION = 1
"""The value of ``version`` in every body but ``delete``."""

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
                call.properties = _NO_MAP
            ends.append(end)
        else:
            ends.append(end if _has_its_fields(call, kind) else None)
    return ends


def _has_its_fields(call: _Call, kind: str) -> bool:
    """Put ``{}`` for what a body of its type always has; False when that, or another name, has to be looked for."""
    if kind == "page":
        if not call.properties:
            call.properties = _NO_MAP
            return call.traits is None
        return True
    if kind == "group" and call.traits is None:
        call.traits = _NO_MAP
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


_NO_MAP: dict[str, Any] = {}
_join = b"".join
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_list = msgspec.json.Decoder(list[_Call], float_hook=canonical.known_float).decode
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


def render_plain(record: Accepted) -> bytes:
    """Return the body with every number and every inner object as the caller wrote it."""
    try:
        caller = _caller_of(record.body)
        context = object_of(caller.context)
        if record.envelope is not None:
            context = merge(context_of(record.envelope), context)
        return _encode(
            _out(record, caller, object_of(caller.properties), object_of(caller.traits), context, _EMPTY_RAW)
        )
    except (ValueError, RecursionError):
        return canonical.encode_verbatim(_tree(record))


def render_canonical(record: Accepted) -> bytes:
    """Return the body as JavaScript would stringify it after parsing; these bytes are sent and signed."""
    return render_all_canonical((record,))[0]


def render_all_canonical(records: Sequence[Accepted]) -> list[bytes]:
    """Return what ``render_canonical`` does for each of several events."""
    rendered = render_ordinary(records)
    if all(rendered):
        return rendered  # type: ignore[return-value]  # none is None
    return [
        canonical.canonicalize(render_plain(each)) if made is None else made
        for each, made in zip(records, rendered, strict=True)
    ]


def message_id_header(message_id: str) -> bytes:
    """Percent-encode a messageId for a header; letters, digits and ``-._~`` stay (RFC 3986 unreserved)."""
    return message_id_headers((message_id,))[0]


def message_id_headers(message_ids: Sequence[str]) -> list[bytes]:
    """Return what ``message_id_header`` does for each of several messageIds."""
    try:
        encoded = list(map(str.encode, message_ids))
    except UnicodeEncodeError:  # half a character, as JavaScript may send it
        return list(map(_percent_encoded, message_ids))
    if not b"".join(encoded).translate(None, _UNRESERVED):
        return encoded
    return list(map(_percent_encoded, message_ids))


def _percent_encoded(message_id: str) -> bytes:
    encoded = message_id.encode("utf-8", "surrogatepass")
    return quote(encoded, safe="").encode("ascii") if encoded.translate(None, _UNRESERVED) else encoded


class _Caller(msgspec.Struct, gc=False):
    """The caller's strings; numbers are taken for ids because some SDKs send them."""

    userId: str | int | None = None
    anonymousId: str | int | None = None
    event: str | int | None = None
    name: str | int | None = None
    category: str | int | None = None
    groupId: str | int | None = None
    previousId: str | int | None = None


class _PlainCaller(_Caller, gc=False):
    properties: Raw | UnsetType = UNSET
    traits: Raw | UnsetType = UNSET
    context: Raw | UnsetType = UNSET


class _AnyCaller(msgspec.Struct, gc=False):
    """The same, whatever the names are."""

    userId: Raw = Raw(b"null")
    anonymousId: Raw = Raw(b"null")
    event: Raw = Raw(b"null")
    name: Raw = Raw(b"null")
    category: Raw = Raw(b"null")
    groupId: Raw = Raw(b"null")
    previousId: Raw = Raw(b"null")
    properties: Raw | UnsetType = UNSET
    traits: Raw | UnsetType = UNSET
    context: Raw | UnsetType = UNSET


def _caller_of(body: bytes) -> _PlainCaller:
    """Return the caller's fields; a name that is neither text nor integer is made a text."""
    try:
        return _decode_plain(body)
    except msgspec.ValidationError:
        caller = _decode_any(body)
    return _PlainCaller(
        userId=_text_of(caller.userId),
        anonymousId=_text_of(caller.anonymousId),
        event=_text_of(caller.event),
        name=_text_of(caller.name),
        category=_text_of(caller.category),
        groupId=_text_of(caller.groupId),
        previousId=_text_of(caller.previousId),
        properties=caller.properties,
        traits=caller.traits,
        context=caller.context,
    )


def _text_of(written: Raw) -> str | None:
    text = bytes(written)
    if text == b"null":
        return None
    if text[:1] == b'"':
        return _decode_text(written)
    if text[:1] in (b"{", b"["):
        return canonical.canonicalize(text).decode()
    return _number_text(text.decode()) if text[:1] not in (b"t", b"f") else text.decode()


def _number_text(number: str) -> str:
    """Return a number as a text: an integer as it is written, another as JavaScript writes it."""
    is_integer = number != "-0" and number.removeprefix("-").isdigit()
    return number if is_integer else canonical.javascript_number(number)


class _Body(msgspec.Struct, gc=False):
    """Every field of every body, in the order in which they are sent."""

    version: int
    type: str
    userId: str | UnsetType
    anonymousId: str | UnsetType
    timestamp: str
    event: str | UnsetType
    name: str | UnsetType
    category: str | UnsetType
    groupId: str | UnsetType
    previous_id: str | UnsetType = msgspec.field(name="Previous ID")
    user_id: str | UnsetType = msgspec.field(name="User ID")
    properties: Any
    traits: Any
    context: Any


class _Delete(msgspec.Struct, gc=False):
    type: str
    userId: str | UnsetType
    timestamp: str


def _out(
    record: Accepted, caller: _Caller, properties: Any, traits: Any, context: Any, empty: object
) -> _Body | _Delete:
    kind = record.type
    user_id = _text(caller.userId)
    if kind == "delete":
        return _Delete(kind, user_id, record.timestamp)
    new_id: str | UnsetType = UNSET
    if kind == "track":
        properties = empty if properties is UNSET else properties
    elif kind == "page":
        if traits is not UNSET and _is_empty(properties):
            properties, traits = traits, UNSET
        properties = empty if properties is UNSET else properties
    elif kind in ("identify", "group"):
        if traits is UNSET and kind == "identify":
            traits = _traits_in(context)
        traits = empty if traits is UNSET else traits
    elif kind == "alias":
        user_id, new_id = UNSET, user_id
    # Most are absent; a call for each would cost more than the rest of this function.
    anonymous_id, event, name = caller.anonymousId, caller.event, caller.name
    category, group_id, previous_id = caller.category, caller.groupId, caller.previousId
    return _Body(
        BODY_VERSION,
        kind,
        user_id,
        UNSET if anonymous_id is None else _text(anonymous_id),
        record.timestamp,
        UNSET if event is None else _text(event),
        UNSET if name is None else _text(name),
        UNSET if category is None else _text(category),
        UNSET if group_id is None else _text(group_id),
        UNSET if previous_id is None else _text(previous_id),
        new_id,
        properties,
        traits,
        context,
    )


def _traits_in(context: Any) -> Any:
    """RudderStack's server SDKs give an identify call's traits only within its context."""
    if context is UNSET:
        return UNSET
    fields = context if isinstance(context, dict) else decode_fields(context)
    traits = fields.get("traits")
    if isinstance(traits, Raw):
        return object_of(traits)
    return traits if isinstance(traits, dict) else UNSET


def _text(value: str | int | None) -> str | UnsetType:
    if value.__class__ is str:
        return value or UNSET
    return UNSET if value is None else str(value)


def _is_empty(value: Any) -> bool:
    return value is UNSET or value == {} or (isinstance(value, Raw) and not bytes(value)[1:-1].strip())


def _merge(under: dict[str, Any] | None, over: Any, levels: int = MERGED_LEVELS_MAX) -> Any:
    if under is None:
        return over
    if over is UNSET:
        return under
    merged = dict(under)
    for key, value in over.items():
        lower = under.get(key)
        are_objects = isinstance(lower, dict) and isinstance(value, dict)
        merged[key] = _merge(lower, value, levels - 1) if levels > 1 and are_objects else value
    return merged


def _tree(record: Accepted) -> Tree:
    """Build the body the slow way; the same fields in the same order as ``_Body``."""
    caller = _tree_object(canonical.decode(record.body))
    context = _tree_fields(caller, "context")
    if record.envelope is not None:
        envelope = _tree_fields(_tree_object(canonical.decode(record.envelope)), "context")
        context = _merge(None if envelope is UNSET else envelope, context)
    strict = _Caller(**{name: _tree_text(caller.get(name)) for name in _Caller.__struct_fields__})
    fields = _tree_fields(caller, "properties"), _tree_fields(caller, "traits")
    body = _out(record, strict, *fields, context, {})
    named = zip(body.__struct_encode_fields__, msgspec.structs.astuple(body), strict=True)
    return {name: _VERSION if name == "version" else value for name, value in named if value is not UNSET}


def _tree_object(tree: Tree) -> dict[str, Tree]:
    return tree if isinstance(tree, dict) else {}


def _tree_fields(tree: dict[str, Tree], name: str) -> Any:
    value = tree.get(name)
    return value if isinstance(value, dict) else UNSET


def _tree_text(value: Tree) -> str | None:
    if isinstance(value, canonical.Number):
        return _number_text(value)
    if value is None or isinstance(value, str):
        return value
    return canonical.encode_canonical(value).decode()


_EMPTY_RAW = Raw(b"{}")
_VERSION = canonical.Number(BODY_VERSION)
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-"

_encode = msgspec.json.Encoder().encode
_decode_plain = msgspec.json.Decoder(_PlainCaller).decode
_decode_any = msgspec.json.Decoder(_AnyCaller).decode
_decode_text = msgspec.json.Decoder(str).decode
