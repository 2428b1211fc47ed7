"""``hookline status``: what is wrong now, on one screen."""

from __future__ import annotations

import json

from hookline.cli.admin_api import Json
from hookline.cli.app import EVENTS, HERE, app
from hookline.cli.tables import SEVERITY_SHAPES, STATE_SHAPES, print_table, when
from hookline.cli.target import Options, printable

COLUMNS = ("Destination", "State", "Since", "Next try", "Queued#", "Retrying#", "Failed#", "Expired#")


@app.command(group=EVENTS)
def status(*, options: Options = HERE) -> int:
    """Show what is wrong now: processes, destinations, issues and notices. Exit code 0 if nothing is, else 1."""
    found = options.admin().get("/status")
    if options.as_json:
        print(json.dumps(found))
    else:
        _print(found, options.utc)
    return 0 if found["ok"] else 1


def _print(found: Json, utc: bool) -> None:
    resting = [f"{name}: {state}" for name, state in found["roles"].items() if state not in ("working", "standing_by")]
    calm = found["destinationsCount"] - len(found["destinations"])
    print(f"{_summary(found)}, as of {when(found['asOf'], utc)}")
    if resting:
        print(f"■ {', '.join(resting)}; see hookline doctor")
    if found["destinations"]:
        print_table(COLUMNS, [_row(each, utc) for each in found["destinations"]])
    for each in found["destinations"]:
        if unusable := each.get("unusable"):
            print(printable(f"■ {each['id']}: {unusable}"))
    if calm:
        also = "other " if found["destinations"] else ""
        print(f"● {calm} {also}destination{'' if calm == 1 else 's'} healthy or disabled, nothing queued")
    if count := found["openIssues"]:
        print(f"▲ {count} open issue{'' if count == 1 else 's'}; see hookline issues")
    for notice in found["notices"]:
        print(printable(f"{SEVERITY_SHAPES[notice['severity']]} {notice['message']}"))
        print(printable(f"    {notice['nextStep']}"))


def _summary(found: Json) -> str:
    if not found["ok"]:
        return "■ something is wrong"
    return "▲ everything works, with open issues" if found["openIssues"] else "● all is well"


def _row(each: Json, utc: bool) -> list[str]:
    figures, next_try, problem = each["figures"], each["nextTry"], each["problem"]
    answer = f" ({problem['httpStatus']})" if problem and problem["httpStatus"] and each["state"] != "degraded" else ""
    return [
        each["id"],
        f"{STATE_SHAPES[each['state']]} {each['state'].replace('_', ' ')}{answer}",
        when(each["since"], utc),
        when(next_try["at"], utc) if next_try else "",
        f"{'' if figures['queuedExact'] else '≤ '}{figures['queued']}",
        *(str(figures[name]) for name in ("retrying", "failed", "expired")),
    ]
