"""Events that are rendered together, for one lane or for several."""

from __future__ import annotations

import pytest

from hookline.deliver.event import Event, Rendered
from hookline.journal.record import Record, fingerprint


def event(number: int, shared: bool = False, body: bytes = b'{"type":"track","event":"Order","userId":"u"}') -> Event:
    """A track call."""
    message_id = f"m/{number}"
    print_ = fingerprint("website", message_id)
    record = Record(1, False, 0, "website", "track", message_id, print_, "u", "2026-11-20T07:00:00.000Z", "sdk", body)
    return Event(number, record, shared)


def together(events: list[Event]) -> list[Rendered]:
    """What is made of them at once."""
    return list(zip(*Event.all_canonical(events), strict=True))


@pytest.mark.parametrize("shared", [(), (0, 1, 2, 3), (1,)])
@pytest.mark.parametrize("before", [(), (1, 2), (0, 1, 2, 3)])
def test_together_they_are_what_each_is_alone(shared: tuple[int, ...], before: tuple[int, ...]) -> None:
    """Also where another lane has had some of them; an unusual one among them does not matter."""
    bodies = [b'{"event":"a","userId":"u"}', b'{"event":"b","userId":7}', b'{"event":"c"}', b'{"event":"d","n":1.0}']
    alone = [event(n, body=body).canonical() for n, body in enumerate(bodies)]
    events = [event(n, n in shared, body) for n, body in enumerate(bodies)]
    for n in before:
        assert events[n].canonical() == alone[n]
    assert together(events) == alone
    assert together(events) == alone


def test_only_what_is_shared_is_kept() -> None:
    """A body that nobody else will ask for takes no memory; one that others will is made once."""
    alone, shared = event(1), event(2, shared=True)
    (first,) = together([alone])
    (again,) = together([alone])
    assert again == first
    assert again[1] is not first[1]
    (first,) = together([shared])
    (again,) = together([shared])
    assert again[1] is first[1]
