"""One batch until the end: tries, pauses, parts."""

from __future__ import annotations

import pytest

from gate_transport import GateTransport
from hookline_client.answer import Answer
from hookline_client.consumers.delivery import Delivery, Waited
from hookline_client.ledger import Ledger
from hookline_client.options import resolve
from hookline_client.receipts import FlushResult, Message, Receipt

BATCH: list[Message] = [(str(number), b"{}") for number in range(4)]
HOUR_SECONDS = 3600.0
AWAY = Answer(0, "connection_failed", "Away.")


class Pauses:
    """Takes the place of waiting: keeps the pauses and lets the next try come at once."""

    def __init__(self, tries: int = 1000, cut: int = 0) -> None:
        self.seconds: list[float] = []
        self.asked: list[bool] = []
        self._tries = tries
        self._cut = cut

    def __call__(self, seconds: float, asked: bool) -> Waited:
        self.seconds.append(seconds)
        self.asked.append(asked)
        if len(self.seconds) >= self._tries:
            return "over"
        return "cut" if len(self.seconds) <= self._cut else "whole"


def deliver(
    transport: GateTransport, pauses: Pauses, errors: list[str] | None = None, **options: object
) -> tuple[FlushResult, list[Message]]:
    """Deliver one batch; return what the ledger says and what is left."""
    ledger = Ledger(lambda code, _: errors.append(code) if errors is not None else None, keep_all=True)
    delivery = Delivery(resolve("wk", {"transport": transport, **options}, {}), ledger)
    left = delivery.deliver(BATCH, pauses, lambda: None, lambda count: None)
    return ledger.take(0), left


def test_an_accepted_batch_is_done() -> None:
    """No pause, no second try."""
    transport, pauses = GateTransport(shut=False), Pauses()
    result, left = deliver(transport, pauses)
    assert (result.accepted, left, pauses.seconds, len(transport.batches)) == (4, [], [], 1)


@pytest.mark.parametrize("status", [0, 408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    """The same batch, after pauses that grow from nothing to half a minute."""
    transport, pauses = GateTransport(*[Answer(status, "x", "X.")] * 12, shut=False), Pauses()
    result, _ = deliver(transport, pauses)
    assert result.accepted == 4
    assert len(transport.batches) == 13
    assert all(0 <= pause <= min(30.0, 0.25 * 2**number) for number, pause in enumerate(pauses.seconds))
    assert not any(pauses.asked)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 415, 501, 505])
def test_what_cannot_pass_is_given_up(status: int) -> None:
    """At once, with the service's code for every event."""
    transport, pauses = GateTransport(Answer(status, "unknown_write_key", "No."), shut=False), Pauses()
    result, _ = deliver(transport, pauses)
    assert (result.gave_up, len(transport.batches)) == (4, 1)
    assert set(result.receipts) == {Receipt(str(n), "gave_up", "unknown_write_key", "No.") for n in range(4)}


def test_a_pause_the_service_asks_for_is_kept() -> None:
    """Never shorter, hardly longer, and not cut short by a flush; capped at five minutes."""
    answers = [Answer(429, "throttled", "T.", (), 2.0), Answer(503, "overloaded", "O.", (), 9999.0)]
    pauses = Pauses()
    result, _ = deliver(GateTransport(*answers, shut=False), pauses)
    assert result.accepted == 4
    assert 2.0 <= pauses.seconds[0] <= 2.25
    assert 300.0 <= pauses.seconds[1] <= 300.25
    assert pauses.asked == [True, True]


def test_retries_are_bounded_by_number_and_by_time() -> None:
    """Then the events are given up, with the last reason."""
    transport, pauses = GateTransport(*[AWAY] * 10, shut=False), Pauses()
    result, _ = deliver(transport, pauses, max_retries=3)
    assert (result.gave_up, len(transport.batches), len(pauses.seconds)) == (4, 4, 3)
    assert result.receipts[0].code == "connection_failed"
    transport = GateTransport(*[Answer(503, "overloaded", "O.", (), 60.0)] * 10, shut=False)
    result, _ = deliver(transport, Pauses(), retry_seconds=59.0)
    assert (result.gave_up, len(transport.batches)) == (4, 1)


@pytest.mark.parametrize("asked", [None, 1.0, 5.0])
def test_usually_an_event_is_tried_for_the_hour_that_is_promised(asked: float | None) -> None:
    """However the service fails: no answer at all, or a short pause that it asks for, as a full disk of it does."""

    class Hour(Pauses):
        def __call__(self, seconds: float, asked: bool) -> Waited:
            self.seconds.append(seconds)
            return "over" if sum(self.seconds) >= HOUR_SECONDS else "whole"

    class Away(GateTransport):
        def send(self, batch: list[Message], timeout_seconds: float | None = None) -> Answer:  # type: ignore[override]
            return Answer(503, "disk_full", "Full.", (), asked)

    result, left = deliver(Away(shut=False), Hour())
    assert (left, result.gave_up) == (BATCH, 0)


def test_the_handler_learns_of_an_outage_when_it_begins() -> None:
    """And once more when events are given up; not with every try."""
    errors: list[str] = []
    deliver(GateTransport(*[AWAY] * 10, shut=False), Pauses(), errors, max_retries=5)
    assert errors == ["connection_failed"] * 2


def test_tries_that_a_flush_brings_forward_are_not_counted() -> None:
    """A program that flushes with every request would otherwise have had all its retries in a second."""
    transport = GateTransport(*[AWAY] * 20, shut=False)
    result, _ = deliver(transport, Pauses(cut=10), max_retries=3)
    assert (result.gave_up, len(transport.batches)) == (4, 1 + 10 + 3)


def test_rejected_events_of_a_batch_have_their_own_receipts() -> None:
    """By index: the service may not have been able to read the messageId."""
    rejected = ((1, "missing_event", "No event."), (9, "no_such", "Ignored."))
    result, _ = deliver(GateTransport(Answer(200, rejected=rejected), shut=False), Pauses())
    assert (result.accepted, result.rejected) == (3, 1)
    assert Receipt("1", "rejected", "missing_event", "No event.") in result.receipts


@pytest.mark.parametrize("status", [400, 413])
def test_one_event_that_spoils_a_request_is_found_by_halves(status: int) -> None:
    """The others arrive."""

    class Spoiled(GateTransport):
        def send(self, batch: list[Message], timeout_seconds: float | None = None) -> Answer:  # type: ignore[override]
            super().send(batch)
            spoiled = any(message_id == "2" for message_id, _ in batch)
            return Answer(status, "invalid_json", "Bad.") if spoiled else Answer(200)

    transport = Spoiled(shut=False)
    result, left = deliver(transport, Pauses())
    assert (result.accepted, result.gave_up, left) == (3, 1, [])
    assert [receipt for receipt in result.receipts if receipt.code] == [Receipt("2", "gave_up", "invalid_json", "Bad.")]
    assert transport.batches == [["0", "1", "2", "3"], ["0", "1"], ["2", "3"], ["2"], ["3"]]


def test_no_time_for_another_try_leaves_the_batch() -> None:
    """To the consumer, which says what became of it; of halves, both."""
    result, left = deliver(GateTransport(AWAY, AWAY, shut=False), Pauses(tries=2))
    assert (left, result.gave_up) == (BATCH, 0)
    bad = Answer(400, "invalid_json", "Bad.")
    result, left = deliver(GateTransport(bad, AWAY, shut=False), Pauses(tries=1))
    assert left == BATCH
