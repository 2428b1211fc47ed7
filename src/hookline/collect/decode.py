"""From a request's bytes to checked JSON: inflation with a cap, strict UTF-8, bounded nesting, repaired surrogates, and
the query of a pixel. What the JSON means is decided elsewhere."""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Iterator
from itertools import accumulate
from operator import sub
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from hookline.connections.model import BATCH_BYTES_MIN

# The limits that docs/reference/collection.md names.
EVENT_BYTES_MAX = 32_768
"""A single call, and one event of a batch with what the envelope adds to it."""
BATCH_BYTES_MAX = BATCH_BYTES_MIN
"""A batch after inflation, where its source does not ask for more (``batchBytes``)."""
BATCH_EVENTS_MAX = 2_500

# What the fields of an event may hold.
MESSAGE_ID_CHARACTERS_MAX = 512
USER_KEY_CHARACTERS_MAX = 512
"""Of a rejected event only; an accepted one is bounded by EVENT_BYTES_MAX."""
TYPE_CHARACTERS_MAX = 64
"""Of a rejected event only: what the caller wrote as its type."""
NESTING_LEVELS_MAX = 128
REJECTED_BODY_BYTES_MAX = 4_096
"""How much of a rejected event is kept for inspection."""
STORED_BYTES_MAX = 2 * 1024 * 1024
"""Events of one request with the envelope repeated for each, as they are stored: four times the largest batch, so that
a few hundred bytes of gzip cannot become megabytes of journal."""
STORED_BYTES_MORE = 1024 * 1024
"""What the envelope may at least add to a batch as large as its source takes them."""

# One request's head.
HEAD_BYTES_MAX = 64 * 1024
"""Target, names and values, and four bytes per header."""
HEAD_FRAME_BYTES_MAX = 64
"""The rest of a request line and the empty line."""
HEADERS_MAX = 100
TARGET_BYTES_MAX = 8 * 1024
WRITE_KEY_CHARACTERS_MAX = 200
QUERY_FIELDS_MAX = 20
PIXEL_FIELDS_MAX = 200
HOST_CHARACTERS_MAX = 261
"""The longest name and a port; a longer Host is not repeated in what SDKs are told."""

# One request's body on the wire.
GZIP_OVERHEAD_BYTES = 1_024
"""What gzip may add to a body that does not compress."""
GZIP_MEMBERS_MAX = 16
DRAIN_BYTES_MAX = 64 * 1024
"""Read past a body's limit before the connection is closed; within it, the connection lives on."""
CHUNK_OVERHEAD_BYTES_MAX = 64 * 1024
"""Chunk extensions and trailers of one body."""
CHUNK_FRAME_BYTES = 24
"""What one honest chunk costs: its size in hex and two line ends."""

# Time.
HEADERS_SECONDS_MAX = 10.0
BODY_SECONDS_MAX = 30.0
STALLED_ANSWER_SECONDS_MAX = 30.0
"""How long a client may leave its answers unread."""
LINGER_SECONDS_MAX = 5.0
"""How long what a refused client still sends is read and dropped, so that it can see its answer."""
DROP_SECONDS = 0.05
"""From one turn of refused clients, in which what they still send is read, to the next."""
DROP_BYTES_MAX = 512 * 1024
"""What one of them may send in a turn, roughly."""
DROP_CLIENTS_MAX = 8
"""Who has a turn at once: a flood of them costs a few hundredths of a core, and they wait for each other."""
SWEEP_SECONDS = 0.5
QUIET_SWEEP_SECONDS = 1.0
"""The same while nobody is connected."""
UPLOAD_SECONDS_MAX = 3.0
"""How long an end waits for requests that are still arriving while it takes new ones all the same."""
QUIET_SECONDS = 0.25
"""How long a kept connection may be silent at the end before it is closed: a request may be on its way on it."""
DRAIN_SECONDS_MAX = 5.0

# All connections together.
CONNECTIONS_MAX = 20_000
DESCRIPTORS_KEPT = 128
"""Of the files that this process may have open, so many are for the journal, the databases and other roles."""
UNPROVEN_CONNECTIONS_MAX = 1_024
"""Connections of one address that have not sent one whole request yet; browsers open some ahead, and networks of
providers have many users behind one address, each of whom needs a fraction of a second."""
BUFFERED_BYTES_MAX = 128 * 1024 * 1024
"""Unfinished heads and bodies of all connections, requests behind too many unanswered ones, and unread answers."""
PIPELINED_MAX = 32
"""Unanswered requests of one connection before it is read no further; and how many it may end in one turn, roughly."""
FEED_BYTES = 8 * 1024
"""A longer read is parsed head by head and body by body: hundreds of requests may be in it."""
BACKLOG_CONNECTIONS = 1_024

RETRY_AFTER_SECONDS = 5
"""What a 503 tells the client."""
RETRY_AFTER_SECONDS_MAX = 600
"""What a 429 tells the client at most, however far its source is in debt."""


T = TypeVar("T")


class BadBody(Exception):
    """The body cannot be used; ``code`` is the answer's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class TooLarge(BadBody):
    """The body inflates past its limit."""

    def __init__(self) -> None:
        super().__init__("body_too_large")


def inflate(body: bytes, bytes_max: int) -> bytes:
    """Gunzip a body of one or more members; never produce more than ``bytes_max`` + 1 bytes."""
    return b"".join(inflate_in_steps(body, bytes_max, bytes_max + 1))


def inflate_in_steps(body: bytes, bytes_max: int, step_bytes: int) -> Iterator[bytes]:
    """Gunzip as ``inflate`` does, in pieces of at most ``step_bytes``."""
    room = bytes_max + 1
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=31)  # 31: a gzip header and trailer are required, and the CRC is checked
        while not member.eof:
            try:
                piece = member.decompress(body, min(room, step_bytes))
            except zlib.error:
                raise BadBody("invalid_gzip") from None
            room -= len(piece)
            if room <= 0:
                raise TooLarge
            body = member.unconsumed_tail
            if not (piece or body or member.eof):
                raise BadBody("invalid_gzip")  # it ends too early
            yield piece
        body = member.unused_data
        if not body:
            return
    raise BadBody("invalid_gzip")


def load(body: bytes, decoder: msgspec.json.Decoder[T], levels_max: int | None) -> tuple[T, bytes, int]:
    """Decode a body; return the value, the body as it is to be stored, and how many surrogates were repaired.

    ``levels_max`` None leaves the nesting to the caller.
    Raise BadBody, or msgspec.ValidationError when the JSON may be sound but has the wrong shape.
    """
    if not body.isascii():
        # msgspec checks the UTF-8 only of strings it builds, not of those it skips.
        try:
            body.decode()
        except UnicodeDecodeError:
            raise BadBody("invalid_utf8") from None
    repaired = 0
    try:
        try:
            value = decoder.decode(body)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            body, repaired = repair_surrogates(body)
            if not repaired:
                raise
            value = decoder.decode(body)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise BadBody("nesting_too_deep") from None
    except msgspec.DecodeError:
        raise BadBody("invalid_json") from None
    if levels_max is not None and nested_deeper(body, levels_max):
        raise BadBody("nesting_too_deep")
    return value, body, repaired


_FIRST_HALF, _SECOND_HALF = (rb"\\u[dD][%b][0-9a-fA-F]{2}" % third for third in (b"89abAB", b"c-fC-F"))
_LONE_HALF = re.compile(b"%b(?!%b)|%b(?<!%b)" % (_FIRST_HALF, _SECOND_HALF, _SECOND_HALF, _FIRST_HALF + _SECOND_HALF))
_MASK = b"\xff\xff"
"""Stands in for an escaped backslash; no UTF-8 has these bytes."""


def repair_surrogates(body: bytes) -> tuple[bytes, int]:
    """Replace each escaped surrogate without its other half by U+FFFD; return how many there were.

    JavaScript cuts strings between the halves of an emoji and escapes what is left; the event is worth more than that.
    """
    # Where escaped backslashes are masked, each backslash begins an escape. No function is called for each of them: a
    # few hundred bytes of gzip hold hundreds of thousands, and whose they are is not known yet.
    parts = _LONE_HALF.split(body.replace(rb"\\", _MASK))
    return rb"\ufffd".join(parts).replace(_MASK, rb"\\"), len(parts) - 1


OBJECT_BYTES_MIN = len('{"":}')
"""What each level of objects takes at least; of arrays there can be no more than there are brackets."""

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"{}[]'))
_STRING = re.compile(rb'"[^"]*"')
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_OPENING, _CLOSING = re.compile(rb"\[+"), re.compile(rb"\]+")
_PART_TAKEN_MIN = 16
"""A round that takes away less than this part of the brackets costs more than to look at each run of them."""


def any_nested_deeper(items: list[bytes], levels_max: int) -> bool:
    """Return whether any of these is nested deeper than ``levels_max``; nearly always none needs a closer look."""
    bounds = [len(item) + OBJECT_BYTES_MIN * (len(item) - len(item.replace(b"[", b""))) for item in items]
    if max(bounds, default=0) <= OBJECT_BYTES_MIN * levels_max:
        return False
    return any(nested_deeper(item, levels_max) for item in items)


def nested_deeper(body: bytes, levels_max: int) -> bool:
    """Return whether valid JSON is nested deeper than ``levels_max``."""
    # ``bytes.count`` looks at each byte by itself; ``replace`` leaps from one occurrence to the next.
    arrays = len(body) - len(body.replace(b"[", b""))
    if len(body) + OBJECT_BYTES_MIN * arrays <= OBJECT_BYTES_MIN * levels_max:
        return False
    if arrays + len(body) - len(body.replace(b"{", b"")) <= levels_max:
        return False
    # Without escaped quotes and all else, a string that holds no bracket is two quotes in a row.
    left = body.replace(rb"\\", b"").replace(rb"\"", b"").translate(_AS_ARRAYS, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in left:
        left = _STRING.sub(b"", left)
    # Each round takes away the innermost level everywhere; events are seldom more than a few levels deep.
    for level in range(1, levels_max + 1):
        brackets = len(left)
        left = left.replace(b"[]", b"")
        if not left:
            return False
        if (brackets - len(left)) * _PART_TAKEN_MIN < brackets:
            opened = accumulate(map(len, _OPENING.findall(left)))
            closed_before = accumulate(map(len, _CLOSING.findall(left)), initial=0)
            levels: int = level + max(map(sub, opened, closed_before))
            return levels > levels_max
    return True


_encode = msgspec.json.Encoder().encode
_URL_SAFE = str.maketrans(" -_", "++/")


def event_of(query: bytes) -> bytes:
    """Return the event's JSON, not yet looked into; raise BadBody when the query holds none."""
    try:
        fields = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=PIXEL_FIELDS_MAX, errors="strict")
    except UnicodeDecodeError:
        raise BadBody("invalid_utf8") from None
    except ValueError:
        raise BadBody("invalid_query") from None
    for name, value in fields:
        if name == "data":
            return _decoded(value)
    return _encode(_assembled(fields))


def _decoded(data: str) -> bytes:
    # Any spelling of base64 will do: with or without padding, safe for URLs or not, a plus read as a space.
    data = data.translate(_URL_SAFE).rstrip("=")
    try:
        return binascii.a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True)
    except ValueError:
        raise BadBody("invalid_query") from None


def _assembled(fields: list[tuple[str, str]]) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for name, value in fields:
        *way, last = name.split(".")
        if len(way) >= NESTING_LEVELS_MAX:
            raise BadBody("nesting_too_deep")
        inner = event
        for step in way:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise BadBody("invalid_query")
        if isinstance(inner.setdefault(last, value), dict):
            raise BadBody("invalid_query")  # one parameter holds a value where another leads further
    anonymous_id = event.get("anonymousId")
    if isinstance(anonymous_id, str) and len(anonymous_id) > 1 and anonymous_id[0] == anonymous_id[-1] == '"':
        event["anonymousId"] = anonymous_id[1:-1]  # RudderStack's cookies hold it in quotes, and pages paste it so
    return event
