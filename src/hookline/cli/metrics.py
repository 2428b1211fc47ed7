"""What ``hookline metrics`` prints: sums over a range, response times, and what failed why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.terminal_text import printable

SUMS = ("accepted", "rejected", "delivered", "failures", "retries", "givenUp")
EXAMPLE_CHARACTERS = 80


def print_all(admin: AdminApi, over: str, as_json: bool) -> int:
    """Everything together, and the destinations that fail most."""
    report = admin.get("/metrics/series", range=over)
    failing = admin.get("/metrics/failing", range=over)["items"]
    if as_json:
        print(json.dumps({**report, "failing": failing}))
        return 0
    print("\n".join(_sums(report["series"], over)))
    for each in failing:
        print(
            f"  ▲ {each['id']}  {_number(each['failures'])} requests failed, {_number(each['givenUp'])} not delivered"
        )
    return 0


def print_destination(admin: AdminApi, id: str, over: str, as_json: bool) -> int:
    """One destination."""
    found = admin.get(f"/destinations/{quote(id, safe='')}/metrics", range=over)
    if as_json:
        series = admin.get("/metrics/series", range=over, destination=id)
        print(json.dumps({**found, "series": series["series"], "times": series["times"]}))
        return 0
    waits = found["waitsFor"]
    print(f"{id}  {found['state']}, last {over}" + (f"; {_waits_for(waits)}" if waits else ""))
    print("  " + ", ".join(f"{_number(count)} {name}" for name, count in found["funnel"].items()))
    times = [f"{name} {ms:g} ms" for name, ms in found["responseMilliseconds"].items() if ms is not None]
    print("  response " + (", ".join(times) or "none yet"))
    for cause in found["errors"]:
        print(f"  ▲ {_cause(cause)}")
    return 0


def _sums(series: dict[str, Sequence[float | None]], over: str) -> Iterator[str]:
    known = {name: [value for value in series[name] if value is not None] for name in series}
    if not any(known.values()):
        yield f"nothing was recorded in the last {over}"
        return
    yield f"last {over}: " + ", ".join(f"{_number(sum(known[name]))} {name}" for name in SUMS)
    latest = {name: known[name][-1] for name in ("waiting", "lag") if known[name]}
    yield "now: " + ", ".join(f"{_number(value)} {name}" for name, value in latest.items())


def _waits_for(waits: Json) -> str:
    what = "the next probe is sent" if waits["what"] == "probe" else "the first retry is due"
    return f"{what} at {waits['until']}" if waits["until"] else what


def _cause(cause: Json) -> str:
    what = f"{cause['outcome']} {cause['status']}" if cause["status"] else cause["outcome"]
    text = f"{what}  {_number(cause['count'])} times, {cause['firstAt']} to {cause['lastAt']}"
    example = printable((cause["example"] or "")[:EXAMPLE_CHARACTERS])
    return f"{text}: {example}" if example else text


def _number(value: float) -> str:
    return f"{value:,.0f}"
