"""The table, as text for the terminal and in the page ``docs/reports/edges.md``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from bench.edges.before import Before
from bench.edges.behind import Behind
from bench.edges.rested import Rested
from hookline.bench.machine import describe

VERSIONS = {
    "nginx": ("nginx", "-v"),
    "HAProxy": ("haproxy", "-v"),
    "Apache": ("apache2", "-v"),
    "Caddy": ("caddy", "version"),
    "Varnish": ("varnishd", "-V"),
}
PAGE = """\
# Balancers before it, receivers behind it

Written by `python -m bench.edges --write` (`make edges`) on {date}: {system}, {cores} cores, Python {python};
{versions}.

Five fronts, each the real program, stand before a real service. {restarts} times *collect* is ended with SIGTERM
and started again by its supervisor under {rate:,.0f} calls/s; connections to *control* rest for the five seconds
after which it once closed them, and then call; bodies are refused. Nothing is sent twice by the sender: what it
gets is what a client gets. *Resets* are calls whose connection ended without an answer; *closed before one* are those
of them whose kept connection ended without a byte, as HTTP lets either side do between two calls, and *by itself* those
that the front neither passed on nor logged a failure of. Apache does that to its clients when all threads of one of
its processes are busy, as they are while calls wait: the *control* rows have the same calls wait while *collect* is
stopped for half a second, so that nothing is started again and nothing behind the front closes. **Lost** was answered
200 and did not arrive, **twice** is what the receiver got more often than once, by ledgers outside the service. Then
every odd receiver is a destination of one service with a `deliver.timeout` of 2 s, beside one that is well and gets
the same events. *Calls* are whole requests that it read, *attempts* those on record, **unseen** calls without an
attempt; *processed again* is what a receiver took twice, which may be where its answer was lost on the way;
**lost** are events without a status, or delivered on record and never processed; *beside* is the longest that the
healthy one waited for such an event. Last, connections that rest, all at the same time and for a minute: many receivers
get each event just as they close (*closed* connections), names move after 3 s, and four dead addresses stand before
a live one whose connections close after each answer; *followed after* is when the last request came to the old address.

Aims: before, each call is answered as wanted, but for what the front closed by itself, and nothing is lost or comes
twice; behind, each event ends as wanted (`any`: the answer is neither a clear yes nor a clear no), nothing is unseen or
lost, and the healthy one waits for less than 2 s; of those that rest one in 10,000 may be done again, a moved name is
followed within 60 s, and dead addresses cost one `deliver.timeout` in all. **{met} of {all} are met.** What is not, is
marked.

{tables}
## What was not played

- Application Load Balancers, Kubernetes ingress controllers, and other services that cannot be started on one machine.
- Rests of more than 60 s, at either side.
- HTTP/2 and HTTP/3 to the fronts: the service speaks HTTP/1.1 to each. TLS in them is tried with the configurations of
  [Behind a balancer](../how-to/behind-a-balancer.md) by that page's tests.
"""


def tables(fronts: Sequence[Before], receivers: Sequence[Behind], resting: Sequence[Rested] = ()) -> str:
    """The parts of the table that were played."""
    text = ""
    if fronts:
        text += _table(
            ("Front", "What", "Calls", "5xx", "Resets", "Answers", "Twice", "Lost", "Longest silence", "Met"),
            [
                (
                    *(row.front, row.what, f"{row.calls:,}", str(row.errors), str(row.resets), row.counts()),
                    *(str(row.doubled), str(row.lost), _seconds(row.silent_seconds), _met(row.is_met)),
                )
                for row in fronts
            ],
        )
    if receivers:
        text += _table(
            (
                *("Receiver", "Wanted", "Events", "Came to", "Calls", "Attempts"),
                *("Unseen", "Processed again", "Lost", "Beside", "Met"),
            ),
            [
                (
                    *(row.name, row.wanted, str(row.events), _statuses(row), str(row.calls), str(row.attempts)),
                    *(str(row.unseen), str(row.doubled), str(row.lost)),
                    *(f"{row.beside_seconds:.2f} s", _met(row.is_met)),
                )
                for row in receivers
            ],
        )
    if resting:
        text += _table(
            (
                *("Connections that rest", "Requests", "Came to", "Calls", "Attempts", "Closed"),
                *("Unseen", "Done again", "Lost", "Longest wait", "Followed after", "Met"),
            ),
            [
                (
                    *(row.name, f"{row.requests:,}", _statuses(row), f"{row.calls:,}", f"{row.attempts:,}"),
                    *(f"{row.closed:,}", str(row.unseen), str(row.doubled), str(row.lost)),
                    *(_seconds(row.wait_seconds), _seconds(row.followed_seconds), _met(row.is_met)),
                )
                for row in resting
            ],
        )
    return text


def page(
    fronts: Sequence[Before], receivers: Sequence[Behind], resting: Sequence[Rested], restarts: int, rate: float
) -> str:
    """The whole report."""
    rows = [*fronts, *receivers, *resting]
    return PAGE.format(
        date=time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        versions=", ".join(f"{name} {_version(command)}" for name, command in VERSIONS.items()),
        restarts=restarts,
        rate=rate,
        met=sum(row.is_met for row in rows),
        all=len(rows),
        tables=tables(fronts, receivers, resting),
        **describe(),
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _statuses(row: Behind | Rested) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(row.statuses.items()))


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.2f} s"


def _met(is_met: bool) -> str:
    return "yes" if is_met else "**no**"


def _version(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = (done.stdout + done.stderr).replace("/", " ").replace("-", " ").split()
    return next((word.strip("(),") for word in words if word.strip("v")[:1].isdigit()), "of unknown version")
