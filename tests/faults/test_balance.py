"""The ledger of the fault report counts what it is there to find: losses, duplicates, and how long a fault was felt."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import pytest

from hookline.bench import receiver
from hookline.bench.event import Ledger
from tests.faults.balance import Balance, Injection, backlog, balance, caught_up
from tests.faults.chart import chart
from tests.faults.report import Outcome, page, percentile
from tests.faults.scenarios import SCENARIOS
from tests.faults.sender import ACKNOWLEDGED, BATCH_EVENTS, DUE, REFUSED, STARTED_NS

RATE = 200.0
BATCHES = 60
STARTED = 1_000.0


class Books:
    """Both ledgers as if so many batches had been acknowledged and arrived, each 10 ms and 20 ms after it was due."""

    def __init__(self, folder: Path) -> None:
        events = BATCHES * BATCH_EVENTS
        self.accepted = Ledger(folder / "accepted", events + 1)
        self.arrivals = Ledger(folder / "arrivals", events + 1)
        self.accepted.counters[STARTED_NS] = int(STARTED * 1e9)
        self.accepted.counters[DUE] = self.accepted.counters[ACKNOWLEDGED] = events
        self.arrivals.counters[receiver.RECEIVED] = events
        for batch in range(BATCHES):
            self.set(batch, 0.01, 0.02)

    def set(self, batch: int, answered: float, arrived: float) -> None:
        """When a batch was acknowledged and its events arrived, from when it was due."""
        first = 1 + batch * BATCH_EVENTS
        due = STARTED + batch * BATCH_EVENTS / RATE
        self.accepted.times[first] = due + answered
        for number in range(first, first + BATCH_EVENTS):
            self.arrivals.times[number] = due + arrived

    def balance(self, *injected: float, damaged: Set[int] = frozenset()) -> Balance:
        """The ledgers joined; ``injected`` are seconds from the start."""
        injections = [Injection("fault", STARTED + seconds) for seconds in injected]
        return balance(self.accepted, self.arrivals, RATE, injections, damaged)


@pytest.fixture
def books(tmp_path: Path) -> Books:
    """Ledgers of a run in which nothing went wrong."""
    return Books(tmp_path)


def _passes(counted: Balance, *failures: str, name: str = SCENARIOS[0].name) -> bool:
    outcome = Outcome(name=name, rate=RATE, times=1, balance=counted, failures=failures)
    return page({name: outcome}, 6, "10s", charts=False).passed


def test_a_run_in_which_all_arrives_once_passes(books: Books) -> None:
    """1,200 events acknowledged, 1,200 arrived; nothing waits, nothing was felt."""
    counted = books.balance(2.0, 4.0)
    assert (counted.acknowledged, counted.arrived, counted.lost, counted.duplicates) == (1_200, 1_200, 0, 0)
    assert [(each.answered, each.arrived) for each in counted.recoveries] == [(0, 0), (0, 0)]
    assert backlog(books.accepted, books.arrivals) == (0, 0)
    assert sum(counted.answered_by_second) == sum(counted.arrived_by_second) == 1_200
    assert _passes(counted)
    assert not _passes(counted, "stuck")


def test_one_event_that_never_arrives_is_lost(books: Books) -> None:
    """One of 1,200 is enough to fail."""
    books.arrivals.times[777] = 0.0
    counted = books.balance(2.0)
    assert counted.lost == 1
    assert not _passes(counted)


def test_what_was_damaged_may_be_missing_and_is_counted(books: Books) -> None:
    """One whose bytes were changed is no loss, another one is; one that arrived all the same is not counted."""
    books.arrivals.times[777] = 0.0
    counted = books.balance(2.0, damaged={777, 778})
    assert (counted.lost, counted.damaged) == (0, 1)
    assert _passes(counted)
    books.arrivals.times[900] = 0.0
    assert not _passes(books.balance(2.0, damaged={777, 778}))


def test_no_call_is_refused_while_only_a_database_suffers(books: Books) -> None:
    """One 503 fails a fault of a database, and is allowed at one of a broker."""
    books.accepted.counters[REFUSED] = 1
    assert _passes(books.balance(2.0), name="brokers-killed")
    assert not _passes(books.balance(2.0), name="read-only")


def test_each_fault_says_what_it_does(books: Books) -> None:
    """In a sentence that the page shows; a fault that nobody felt has no picture."""
    outcomes = {
        each.name: Outcome(name=each.name, rate=RATE, times=1, balance=books.balance(2.0)) for each in SCENARIOS
    }
    text = page(outcomes, 6, "10s", charts=True).markdown()
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith(". |")]
    assert len(rows) == len(SCENARIOS)
    assert ".svg" not in text


def test_what_was_not_acknowledged_may_be_missing(books: Books) -> None:
    """A batch that nobody promised anything about is neither acknowledged nor lost."""
    books.accepted.times[1 + 3 * BATCH_EVENTS] = 0.0
    books.arrivals.times[2 + 3 * BATCH_EVENTS] = 0.0
    counted = books.balance(2.0)
    assert (counted.acknowledged, counted.lost) == (1_180, 0)


@pytest.mark.parametrize(("repeats", "passes"), [(6, True), (7, False)])
def test_more_than_five_in_a_thousand_twice_fails(books: Books, repeats: int, passes: bool) -> None:
    """Duplicates are counted by the receiver; what waits is not made less by them."""
    books.arrivals.counters[receiver.DUPLICATES] = repeats
    books.arrivals.counters[receiver.RECEIVED] += repeats
    assert backlog(books.accepted, books.arrivals) == (0, 0)
    assert books.balance(2.0).duplicates == repeats
    assert _passes(books.balance(2.0)) is passes


def test_a_run_in_which_nothing_was_acknowledged_fails(books: Books) -> None:
    """No loss of nothing proves nothing."""
    for batch in range(BATCHES):
        books.accepted.times[1 + batch * BATCH_EVENTS] = 0.0
    assert not _passes(books.balance(2.0))


def test_the_longest_times_without_an_answer_and_an_arrival_are_found(books: Books) -> None:
    """From 2.05 s on nothing is answered for 1.5 s; what waited is answered then, and arrives half a second later."""
    for batch in range(21, 36):  # due at 2.1, 2.2, …, 3.5 s
        late = 3.55 - batch / 10
        books.set(batch, late, late + 0.5)
    (felt,) = books.balance(2.05).recoveries
    assert felt.unanswered == pytest.approx(1.5)
    assert felt.nothing_arrived == pytest.approx(1.57)


def test_catching_up_ends_when_what_waits_is_little_again() -> None:
    """Ten a second: nothing for two seconds, everything in the fifth; a later injection is not blamed for it."""
    counts = [10, 10, 0, 0, 10, 30, 10, 10, 10]
    assert caught_up(counts, 10.0, 90, [1.5]) == [3.5]
    assert caught_up(counts, 10.0, 90, [0.5, 6.5]) == [4.5, 0.0]
    assert caught_up([10, 10, 10], 10.0, 30, [0.5]) == [0.0]


def test_two_runs_add_up(books: Books) -> None:
    """Counts are added; what is told by second of the second run follows the first."""
    books.arrivals.times[777] = 0.0
    once = books.balance(2.0)
    twice = once + once
    assert (twice.acknowledged, twice.lost, len(twice.recoveries)) == (2_400, 2, 2)
    assert twice.injected_seconds == pytest.approx((2.0, 8.0))
    assert len(twice.answered_by_second) == len(twice.arrived_by_second) == 12


def test_percentiles_and_charts() -> None:
    """The 95th of a hundred; a chart marks each injection."""
    assert percentile([float(n) for n in range(1, 101)], 95) == 95
    assert percentile([3.0], 50) == 3
    assert percentile([], 95) == 0
    drawn = chart("Brokers", [0, 2_000, 1_500], [0, 1_900, 1_600], [1.0, 1.5])
    assert drawn.count("stroke-dasharray") == 2
    assert "2,000" in drawn
