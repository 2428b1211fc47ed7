"""Which records a replay sends."""

from __future__ import annotations

import msgspec
import pytest

from hookline.connections.model import Filter
from hookline.journal.record import Record, Rejection, fingerprint
from hookline.replays.model import ReplayRequest
from hookline.replays.predicate import event_name, predicate_of
from tests.unit.deliver.rig import destination

AT_MS = 1_795_158_000_000
BODY = b'{"type":"track","event":"Order","userId":"u1"}'
RECORD = Record(1, False, AT_MS, "website", "track", "m", fingerprint("website", "m"), "u1", "", "sdk", BODY)


def sends(record: Record = RECORD, **request: object) -> bool:
    """Whether a replay to a destination that the website feeds sends the record."""
    wanted = msgspec.convert({"destination": "crm", **request}, ReplayRequest)
    return predicate_of(wanted, destination("crm"))(record)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"source": "website"},
        {"type": "track"},
        {"event": "Order"},
        {"userId": "u1"},
        {"from": "2026-11-20T07:00:00Z"},
        {"to": "2026-11-20T07:00:00.001Z"},
    ],
)
def test_sent(request_: dict[str, object]) -> None:
    """What is asked for; the begin of a time range belongs to it."""
    assert sends(**request_)


@pytest.mark.parametrize(
    "request_",
    [
        {"source": "app"},
        {"type": "page"},
        {"event": "order"},
        {"userId": "u2"},
        {"from": "2026-11-20T07:00:00.001Z"},
        {"to": "2026-11-20T07:00:00Z"},
    ],
)
def test_not_sent(request_: dict[str, object]) -> None:
    """What is not asked for; the end of a time range does not belong to it."""
    assert not sends(**request_)


@pytest.mark.parametrize(
    "change",
    [
        {"erased": True},
        {"rejection": Rejection("missing_event", "no")},
        {"selection": {"Webhooks": False}},
        {"selection": {"All": False}},
        {"source": "app"},
        {"to": ("other",)},
    ],
)
def test_never_sent(change: dict[str, object]) -> None:
    """Erased and rejected records, those the caller excluded, other sources', and those aimed at others."""
    assert not sends(msgspec.structs.replace(RECORD, **change))


def test_aimed_at_it() -> None:
    """An event of Hookline's own for this destination, whatever its source; a named source restricts it."""
    aimed = msgspec.structs.replace(RECORD, to=("crm",), source="audiences")
    assert sends(aimed)
    assert not sends(aimed, source="website")


@pytest.mark.parametrize(
    ("type_", "body", "name"),
    [
        ("track", BODY, "Order"),
        ("page", b'{"name":"Home","event":"x"}', "Home"),
        ("identify", b"{}", ""),
        ("track", b'{"event":7}', ""),
        ("track", b"\xff", ""),
    ],
)
def test_names(type_: str, body: bytes, name: str) -> None:
    """A track call's event, a page's name; never an error."""
    assert event_name(msgspec.structs.replace(RECORD, type=type_, body=body)) == name


def test_filters_apply_unless_told_otherwise() -> None:
    """What a filter stops is sent only when that is asked for; what it takes out is the sender's to take out."""
    stops = destination("crm", filters=(Filter(condition='event = "Order"', do="drop"),))
    edits = destination("crm", filters=(Filter(condition="true", do="dropProperties", properties=("properties.a",)),))
    assert not predicate_of(ReplayRequest(destination="crm"), stops)(RECORD)
    assert predicate_of(ReplayRequest(destination="crm", ignore_filters=True), stops)(RECORD)
    assert predicate_of(ReplayRequest(destination="crm"), edits)(RECORD)
