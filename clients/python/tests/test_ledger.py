"""The book of outcomes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from hookline_client.ledger import Ledger
from hookline_client.receipts import FlushResult, Message, Receipt

MESSAGES: list[Message] = [("a", b"{}"), ("b", b"{}"), ("c", b"{}")]


def test_each_outcome_is_told_once() -> None:
    """Counts and receipts of one flush are what happened since the one before."""
    ledger = Ledger()
    ledger.accepted(MESSAGES[:1])
    ledger.rejected(MESSAGES[1], "missing_event", "Why.")
    first, second = ledger.take(0), ledger.take(4)
    assert first == FlushResult(accepted=1, rejected=1, receipts=(Receipt("b", "rejected", "missing_event", "Why."),))
    assert second == FlushResult(waiting=4)
    assert not first.ok
    assert not second.ok
    assert ledger.take(0).ok
    assert (ledger.stats().accepted, ledger.stats().rejected) == (1, 1)


def test_receipts_of_accepted_events_are_kept_on_request() -> None:
    """They cost memory, so they are not by default."""
    ledger = Ledger(keep_all=True)
    ledger.accepted(MESSAGES[:1])
    ledger.handed_over(MESSAGES[1:2])
    ledger.gave_up(MESSAGES[2:], "timed_out", "Late.")
    outcomes = [(receipt.message_id, receipt.outcome) for receipt in ledger.take(0).receipts]
    assert outcomes == [("a", "accepted"), ("b", "handed_over"), ("c", "gave_up")]


def test_handlers_are_called_and_cannot_break_anything(caplog: pytest.LogCaptureFixture) -> None:
    """What they raise is one entry in the log."""
    seen: list[object] = []

    def on_success(ids: Sequence[str]) -> None:
        seen.append(ids)
        raise RuntimeError("of the application")

    ledger = Ledger(lambda code, reason: seen.append((code, reason)), on_success)
    ledger.accepted(MESSAGES[:2])
    ledger.dropped(MESSAGES[2:], "queue_full", "Full.")
    ledger.invalid("missing_event", "No event.")
    assert seen == [["a", "b"], ("queue_full", "Full."), ("missing_event", "No event.")]
    assert "a handler of the application failed" in caplog.text


def test_only_what_is_acknowledged_is_a_success() -> None:
    """What was handed over may never arrive: nobody waited for the answer."""
    seen: list[Sequence[str]] = []
    ledger = Ledger(on_success=seen.append)
    ledger.handed_over(MESSAGES[:1])
    ledger.accepted(MESSAGES[1:])
    ledger.accepted([])
    assert seen == [["b", "c"]]


def test_many_losses_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A full queue drops thousands in a second; each is counted, not each is logged."""
    ledger = Ledger()
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            ledger.dropped(MESSAGES[:1], "queue_full", "Full.")
    assert ledger.stats().dropped == 1000
    assert len(caplog.records) == 1


def test_a_forked_child_counts_anew() -> None:
    """What became of the parent's events is the parent's to tell."""
    ledger = Ledger()
    ledger.dropped(MESSAGES, "queue_full", "Full.")
    ledger.forked()
    assert ledger.take(0) == FlushResult()
    assert ledger.stats().dropped == 0
