"""The collection edge under requests that are valid, nearly valid, or neither."""

from __future__ import annotations

import json
import re
from random import Random

import msgspec

from hookline.collect.decode import EVENT_BYTES_MAX, FEED_BYTES
from hookline.deliver.event import Event
from hookline.events.canonical import canonicalize_slowly
from hookline.events.view import EventView
from hookline.journal.local.segment import decode_records
from hookline.journal.record import Record
from tests.fuzz.bare_edge import BareEdge
from tests.fuzz.cases import Cases
from tests.fuzz.mutations import in_pieces
from tests.fuzz.requests import Request, request
from tests.fuzz.wire_answers import Answer, read_answers
from tests.unit.collect.wire import KEY
from tests.unit.collect.wire import request as plain_request

CASES = 4_000
REQUESTS_MAX = 6
REFUSED = Answer(400, {}, b"")
MALFORMED = b'"code":"malformed_request"'
UNREADABLE = ("invalid_json", "nesting_too_deep")
"""Of a body with both faults the decoder meets either first, by how deep the stack is where the body is whole."""
BARE_LF = re.compile(rb"(?<!\r)\n")
MADE_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def conversation(random: Random) -> list[Request]:
    """Requests that a client sends over one connection, some of them twice."""
    sent = [request(random) for _ in range(random.choice((1, 1, 2, 3, REQUESTS_MAX)))]
    return sent + random.choices(sent, k=random.choice((0, 0, 1)))


def accepted_in(answer: Answer) -> int:
    """How many events an answer says were stored."""
    if answer.headers.get(b"Content-Type") == b"image/gif":
        return int(answer.body != b"" and b"X-Hookline-Error" not in answer.headers)
    if not answer.body.startswith(b"{"):
        return 0
    said = json.loads(answer.body) if answer.status == 200 and answer.body else {}
    return int(said.get("accepted", "messageId" in said))


def check_record(record: Record) -> None:
    """What was stored can be read back, looked at and sent."""
    assert decode_records(msgspec.msgpack.encode([record])) == [record]
    json.loads(record.body, parse_constant=_no_constant, parse_int=float)
    if record.rejection is None:
        assert len(record.body) <= EVENT_BYTES_MAX
        event = Event(0, record)
        (message_id, plain), (_, canonical) = event.plain(), event.canonical()
        json.loads(plain, parse_constant=_no_constant, parse_int=float)
        assert canonicalize_slowly(canonical) == canonical == canonicalize_slowly(plain)
        assert re.fullmatch(rb"[A-Za-z0-9._~%-]+", message_id)
        EventView(record).all()


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def seen(edge: BareEdge, written: bytes) -> tuple[list[Answer], list[tuple[object, ...]]]:
    """What came of a conversation: answers and records, ids that were made up aside."""
    # A head with two faults is refused for the one that comes to light first: which that is depends on the cuts.
    found = read_answers(MADE_ID.sub(b"-" * 36, written))
    answers = [
        REFUSED
        if answer.status == 431 or MALFORMED in answer.body
        else Answer(400, {}, b"unreadable")
        if any(f'"code":"{code}"'.encode() in answer.body for code in UNREADABLE)
        else answer
        for answer in found
    ]
    records = [
        (
            record.source,
            record.type,
            MADE_ID.sub(b"-", record.message_id.encode()),
            record.user_key,
            record.body,
            record.envelope,
            record.selection,
            "unreadable" if record.rejection and record.rejection.code in UNREADABLE else record.rejection,
        )
        for record in edge.records
    ]
    edge.records.clear()
    return answers, records


def check_conversation(random: Random, edge: BareEdge) -> None:
    """Well-formed answers, exactly what they promise stored, and the same however the network cuts it."""
    sent = conversation(random)
    data = b"".join(asked.data for asked in sent)
    written = edge.talk(in_pieces(random, data), random, random.choice(("eof", "eof", "late", "lost")))
    answers = read_answers(written)
    assert not {answer.status for answer in answers} & {500, 503}
    for record in edge.records:
        check_record(record)
    kept = [record for record in edge.records if record.rejection is None]
    assert sum(map(accepted_in, answers)) <= len(kept)
    edge.records.clear()
    whole = seen(edge, edge.talk([data]))
    assert sum(map(accepted_in, whole[0])) == sum(rejection is None for *_, rejection in whole[1])
    cut = seen(edge, edge.talk(in_pieces(random, data)))
    if len(data) > FEED_BYTES and whole[0][-1:] == [REFUSED] and BARE_LF.search(data):
        # The edge cuts it itself, between requests, and sees there what pieces may hide; see in_pieces.
        assert cut[0][: len(whole[0]) - 1] == whole[0][:-1]
    else:
        assert cut == whole
    if all(asked.stored for asked in sent):
        assert [answer.status for answer in whole[0]] == [200] * len(sent)
        assert [record[4] for record in whole[1]] == [asked.stored for asked in sent]


def test_no_request_does_harm(cases: Cases) -> None:
    """No exception, no answer that is not one, nothing stored that cannot be sent, no byte of a body kept."""
    edge = BareEdge()
    number = cases.run("edge", CASES, lambda random: check_conversation(random, edge))
    print(f"{number} conversations")
    good = plain_request("/v1/track", {"userId": "u", "event": "e"}, KEY)
    assert [answer.status for answer in read_answers(edge.talk([good]))] == [200]
