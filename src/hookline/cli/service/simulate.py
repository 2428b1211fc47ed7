"""``hookline simulate``: what an outage of a receiver would do, shown as a table and a chart or as JSON."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookline.cli.admin_api import CommandFailed
from hookline.connections import file as connections_file
from hookline.connections.model import Destination, Webhook, WebhookSettings
from hookline.deliver.retry.policy import GONE
from hookline.outcomes.outcome import Outcome
from hookline.settings import SettingsError, load, parse_duration, parse_size
from hookline.simulation.outage import Outage, Report, Sample, simulate

USAGE = 2
RATE_PER_SECOND_MAX = 100_000.0
OUTAGE_SECONDS_MAX = 30 * 86_400.0
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
CHART_COLUMNS = 72
CHART_ROWS = 10
ATTEMPTS_SHOWN = 12
WITHOUT_STATUS = {
    "timeout": Outcome.TIMED_OUT,
    "refused": Outcome.CONNECTION_FAILED,
    "dns": Outcome.NAME_NOT_RESOLVED,
    "tls": Outcome.TLS_REFUSED,
}
_BARS = " ▁▂▃▄▅▆▇█"


def simulate_outage(
    *,
    destination: str | None,
    connections: Path | None,
    config: Path | None,
    rate: str,
    outage: str,
    after: str,
    latency: str,
    status: str,
    retry_after: str | None,
    event_size: str,
    seed: int,
    as_json: bool,
) -> int:
    """Simulate and show."""
    try:
        settings = load(config)[0]
    except SettingsError as error:
        raise CommandFailed(str(error), USAGE) from None
    asked = Outage(
        destination=_destination(destination, connections),
        settings=settings,
        rate=_rate(rate),
        outage_seconds=_seconds("--outage", outage, OUTAGE_SECONDS_MAX),
        after_seconds=_seconds("--after", after, OUTAGE_SECONDS_MAX),
        latency_seconds=_seconds("--receiver-latency", latency, 60.0),
        failure=_failure(status),
        retry_after_seconds=None if retry_after is None else int(_seconds("--retry-after", retry_after, 1e6)),
        event_bytes=_size(event_size),
        seed=seed,
    )
    with ended_in_order() as end_if_signalled:
        report = simulate(asked, end_if_signalled)
    if as_json:
        print(json.dumps(msgspec.to_builtins(report)))
    else:
        show(Console(highlight=False), asked, report)
    return 0


@contextmanager
def ended_in_order() -> Iterator[Callable[[], None]]:
    """Have a signal end it as an exception does: its folder, which takes memory, is removed then.

    What is yielded raises it, SystemExit. Raised by the signal's handler it could be lost: where Python drops what the
    callback of a weak reference raises.
    """
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in ENDING_SIGNALS}

    def end_if_signalled() -> None:
        if came:
            sys.exit(128 + came[0])

    try:
        yield end_if_signalled
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def show(console: Console, asked: Outage, report: Report) -> None:
    """The table, the chart and the time line."""
    console.print(_table(asked, report), soft_wrap=True)
    if report.scale > 1:
        console.print(
            f"Simulated with 1 event in {report.scale}, which takes {report.scale} times as long at the receiver: "
            "backlog and times are those of the full rate, to a few percent; requests, retry rows and expired or "
            "refused events are counted as they are.",
            soft_wrap=True,
        )
    console.print("\nBacklog over time, from the outage's start")
    for line in chart(report.samples):
        console.print(Text(line), soft_wrap=True)
    console.print("\nAttempts of the first event that met the outage")
    for line in time_line(report):
        console.print(Text(line), soft_wrap=True)


def chart(samples: tuple[Sample, ...]) -> list[str]:
    """The backlog as columns of block characters, with the time below."""
    columns = min(CHART_COLUMNS, len(samples))
    begin, end = samples[0].at_seconds, samples[-1].at_seconds
    heights = [0] * columns
    for sample in samples:
        column = min(columns - 1, int((sample.at_seconds - begin) / max(end - begin, 1e-9) * columns))
        heights[column] = max(heights[column], sample.backlog)
    for column in range(1, columns):
        heights[column] = heights[column] or heights[column - 1]
    peak = max([*heights, 1])
    label = len(_count(peak))
    lines = []
    for row in range(CHART_ROWS, 0, -1):
        eighths = [round(height / peak * CHART_ROWS * 8) - (row - 1) * 8 for height in heights]
        bars = "".join(_BARS[min(8, max(0, each))] for each in eighths)
        lines.append(f"{_count(peak) if row == CHART_ROWS else '':>{label}} │{bars.rstrip()}")
    lines.append(f"{'0':>{label}} └{'─' * columns}")
    last = duration(end)
    lines.append(f"{'':>{label}}  {duration(begin):<{max(0, columns - len(last))}}{last}")
    return lines


def time_line(report: Report) -> list[str]:
    """When the first event was tried: the first attempts, and the last ones if there were many."""
    attempts = list(report.attempts)
    if not attempts:
        return ["  none: no event met the outage"]
    lines = [
        f"  {duration(a.at_seconds):>10}  attempt {a.number}: {a.result}{'  (probe)' if a.probe else ''}"
        for a in attempts
    ]
    if len(lines) > ATTEMPTS_SHOWN:
        half = ATTEMPTS_SHOWN // 2
        lines = [*lines[:half], f"  {'…':>10}  {len(lines) - 2 * half} more", *lines[-half:]]
    return lines


def duration(seconds: float) -> str:
    """``2h05m``, ``3m20s``, ``4.5s``."""
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 59.95:
        return f"{sign}{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes:02d}m" if hours else f"{sign}{minutes}m{rest:02d}s"


def _table(asked: Outage, report: Report) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(asked, report):
        table.add_row(name, value)
    return table


def _rows(asked: Outage, report: Report) -> list[tuple[str, str]]:
    failure = asked.failure.value if isinstance(asked.failure, Outcome) else str(asked.failure)
    opened = report.breaker_opened_seconds
    noticed, recovered = report.noticed_after_seconds, report.recovered_after_seconds
    rate = f", at {report.recovery_rate_per_second:,.0f} events/s" if report.recovery_rate_per_second else ""
    return [
        ("Outage", f"{duration(asked.outage_seconds)} of {failure} at {asked.rate:g} events/s"),
        ("Breaker opened", "never" if opened is None else f"after {duration(opened)}"),
        ("Requests that met the outage", f"{report.attempts_of_all:,}"),
        ("Peak backlog", f"{_count(report.peak_backlog)} events, at {duration(report.peak_backlog_at_seconds)}"),
        ("Peak retry rows", f"{report.peak_retry_rows:,}"),
        ("Return noticed", "not in this time" if noticed is None else f"{duration(noticed)} after it"),
        ("Backlog gone", "not in this time" if recovered is None else f"{duration(recovered)} after the return{rate}"),
        ("Lost: expired", f"{report.expired:,} (tried once, and {duration(asked.settings.deliver.retry_window)} over)"),
        ("Lost: passed by retention", f"{report.expired_by_retention:,}"),
        ("Lost: refused for good", f"{report.failed:,}"),
    ]


def _destination(id: str | None, connections: Path | None) -> Destination:
    if id is None:
        webhooks = (Webhook(url="https://receiver.example.com/"),)
        return Destination(id="receiver", name="receiver", settings=WebhookSettings(webhooks=webhooks))
    path = connections or Path("connections.yaml")
    text, problems = connections_file.load(path)
    configuration, more = connections_file.read(text)
    if problems or more:
        raise CommandFailed(f"{path}: {(problems or more)[0]}", USAGE)
    destinations = [found for _, found in configuration.destinations]
    for found in destinations:
        if found.id == id:
            # Secrets need not be at hand here: what is signed with is of no consequence.
            secret = "simulated" if found.settings.shared_secret else None
            if not isinstance(found.settings, WebhookSettings):
                raise CommandFailed(f"{id!r} is no webhook; only webhooks are simulated", USAGE)
            return msgspec.structs.replace(
                found, settings=msgspec.structs.replace(found.settings, shared_secret=secret)
            )
    known = ", ".join(each.id for each in destinations) or "none"
    raise CommandFailed(f"{path} has no destination {id!r}; it has: {known}", USAGE)


def _rate(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?", text)
    rate = float(found[1]) / {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]] if found else 0.0
    if not 0 < rate <= RATE_PER_SECOND_MAX:
        raise CommandFailed(f"--rate: write events per second such as 200/s, or 50/m, not {text!r}", USAGE)
    return rate


def _seconds(option: str, text: str, most: float) -> float:
    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}", USAGE) from None
    if seconds > most:
        raise CommandFailed(f"{option}: at most {duration(most)} can be simulated", USAGE)
    return seconds


def _size(text: str) -> int:
    try:
        return max(1, parse_size(text))
    except ValueError as error:
        raise CommandFailed(f"--event-size: {error}", USAGE) from None


def _failure(text: str) -> int | Outcome:
    if text in WITHOUT_STATUS:
        return WITHOUT_STATUS[text]
    if text.isdigit() and 300 <= int(text) <= 599:
        if int(text) == GONE:
            raise CommandFailed(
                "--status: 410 is not simulated: Hookline pauses a destination whose URLs all answer it, and its events"
                " are queued until somebody resumes it",
                USAGE,
            )
        return int(text)
    words = ", ".join(WITHOUT_STATUS)
    raise CommandFailed(f"--status: write a status from 300 to 599, or one of {words}, not {text!r}", USAGE)


def _count(number: int) -> str:
    return f"{number:,}"
