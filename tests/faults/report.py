"""The fault report: what came of each scenario, as a page with charts, and the aims that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from bench.page import Check, Page, Section

from tests.faults.balance import Balance
from tests.faults.chart import chart
from tests.faults.load import Scenario
from tests.faults.scenarios import SCENARIOS

DUPLICATE_SHARE_MAX = 0.005

PROSE = """\
Events come in batches of 20 through `/v1/batch` at a fixed rate, while what the service leans on is damaged. The sender
works at its rate whatever the answers are, and sends what was refused or cut off again, to the other collect, with the
same messageIds; it writes down what was answered 200. The receiver writes down what it gets. Both are processes outside
the system, and their ledgers are joined at the end. **Lost** is what was answered 200 and never arrived; **twice** is
what arrived more often than once. All of it shares the cores of one machine.

Faults of brokers, workers, the network and PostgreSQL are those of two machines that run everything (`hookline up`) and
two more `deliver` processes, on three Kafka brokers and on PostgreSQL as an ordinary user. The brokers make topics on
demand, with one partition and one copy, as Apache Kafka does by default; `journal.partitions` is {partitions}. Brokers
take one another for gone after 2 s (`broker.session.timeout.ms`; Kafka's default is 9 s, which is to be added to the
times of a killed broker and of one cut off), workers after `deliver.session_timeout`, here {session}. Faults of the
data folder are those of one machine that keeps its journal and its SQLite databases there, as an ordinary user.

Each fault is over before the next is injected, and everything goes through again by itself; but for the workers that
join and leave, which get no time."""

AIMS = """\
Lost is 0 at every fault, and twice at most {share:.1%} of what was acknowledged. While only a database suffers no call
is refused or cut off, unless nobody may read whose events are not to be stored; and while it answers at all no role
ends. Where bytes of the journal were changed, the events of the damaged group that had not arrived may be missing: they
are *damaged*, not lost, and a notice counts them."""

COUNTS = """\
*refused* are calls answered 503, *cut off* those whose connection broke or was refused: both were sent again."""

TIMES = """\
Times are from the injection on, of all injections the median, the 95th percentile and the longest. *Answered again*:
until no more waited at the sender than comes in a second; *arriving again*: the same at the receiver; to the second,
and 0 where no more ever waited. *No answer*, *no arrival*: the longest time without any, before the next injection.
What is seen later of a killed broker in the pictures is its start, which needs both cores."""

PICTURES = """\
Faults that were felt by nobody have no picture."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one scenario; ``failures`` are what went wrong beside the counts."""

    name: str
    rate: float
    times: int
    balance: Balance | None
    failures: tuple[str, ...] = ()

    def plus(self, later: Outcome) -> Outcome:
        """Both runs of the scenario as one."""
        balances = [each.balance for each in (self, later) if each.balance is not None]
        return Outcome(
            name=self.name,
            rate=later.rate,
            times=self.times + later.times,
            balance=balances[0] + balances[1] if len(balances) > 1 else next(iter(balances), None),
            failures=self.failures + later.failures,
        )


def checks(scenario: Scenario, outcome: Outcome) -> list[Check]:
    """The aims of one scenario."""
    title, counted = scenario.title, outcome.balance
    found = [Check(name=title, aim="as promised", measured=failure, passed=False) for failure in outcome.failures]
    if counted is None:
        return found
    is_any = counted.acknowledged > 0
    measured = f"{counted.lost:,}" if is_any else "nothing was acknowledged"
    share = counted.duplicate_share
    aim = f"≤ {DUPLICATE_SHARE_MAX:.1%}"
    aims = [
        Check(name=f"{title}: lost", aim="0", measured=measured, passed=is_any and counted.lost == 0),
        Check(name=f"{title}: twice", aim=aim, measured=f"{share:.3%}", passed=share <= DUPLICATE_SHARE_MAX),
    ]
    if scenario.refuses_none:
        calls = counted.refused + counted.cut_off
        aims.append(Check(name=f"{title}: refused or cut off", aim="0", measured=f"{calls:,}", passed=calls == 0))
    return aims + found


def page(outcomes: Mapping[str, Outcome], partitions: int, session: str, charts: bool) -> Page:
    """The report of these outcomes; with ``charts`` it shows the pictures that ``write_charts`` writes beside it."""
    made = [(each, outcomes[each.name]) for each in SCENARIOS if each.name in outcomes]
    counted = [(each.title, outcome, outcome.balance) for each, outcome in made if outcome.balance is not None]
    pictures = [f"![{each.title}]({_picture(each.name)})" for each, outcome in made if _is_felt(outcome)]
    counts = [
        (
            title,
            f"{outcome.times}",
            *(f"{n:,.0f}" for n in (outcome.rate, b.acknowledged, b.lost, b.damaged, b.duplicates)),
            f"{b.duplicate_share:.3%}",
            *(f"{n:,}" for n in (b.refused, b.cut_off)),
        )
        for title, outcome, b in counted
    ]
    columns = ("fault", "times", "events/s", "acknowledged", "lost", "damaged", "twice", "share", "refused", "cut off")
    sections = [
        Section(
            title="What is done",
            prose=AIMS.format(share=DUPLICATE_SHARE_MAX),
            columns=("fault", "what it is"),
            rows=tuple((each.title, _sentence(each)) for each, _ in made),
        ),
        Section(title="Losses and duplicates", prose=COUNTS, columns=columns, rows=tuple(counts)),
        Section(
            title="Recovery",
            prose=TIMES,
            columns=("fault", "answered again, s", "arriving again, s", "no answer, s", "no arrival, s"),
            rows=tuple((title, *_times(b)) for title, _, b in counted),
        ),
        *([Section(title="Second by second", prose="\n\n".join([PICTURES, *pictures]))] if charts and pictures else []),
    ]
    return Page(
        title="Fault report",
        prose=PROSE.format(partitions=partitions, session=session),
        command="make faults",
        sections=tuple(sections),
        checks=tuple(check for each, outcome in made for check in checks(each, outcome)),
    )


def write_charts(outcomes: Mapping[str, Outcome], folder: Path) -> None:
    """One picture for each scenario that was felt."""
    for each in SCENARIOS:
        outcome, path = outcomes.get(each.name), folder / _picture(each.name)
        if outcome is not None and outcome.balance is not None and _is_felt(outcome):
            b = outcome.balance
            path.write_text(chart(each.title, b.answered_by_second, b.arrived_by_second, b.injected_seconds))
        else:
            path.unlink(missing_ok=True)


def _is_felt(outcome: Outcome) -> bool:
    counted = outcome.balance
    return counted is not None and any(each.answered or each.arrived for each in counted.recoveries)


def _sentence(scenario: Scenario) -> str:
    said = " ".join((scenario.play.__doc__ or "").split())
    return said[:1].upper() + said[1:]


def _times(counted: Balance) -> tuple[str, ...]:
    each = counted.recoveries
    columns = (
        [r.answered for r in each],
        [r.arrived for r in each],
        [r.unanswered for r in each],
        [r.nothing_arrived for r in each],
    )
    return tuple(
        " / ".join(f"{percentile(column, hundredths):.1f}" for hundredths in (50, 95, 100)) for column in columns
    )


def percentile(values: Sequence[float], hundredths: int) -> float:
    """The smallest value that so many of a hundred do not pass, 0 when there are none."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * hundredths // 100) - 1] if ordered else 0.0


def _picture(name: str) -> str:
    return f"faults-{name}.svg"
