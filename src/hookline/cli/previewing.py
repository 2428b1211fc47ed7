"""What ``hookline audiences preview`` and ``hookline computed-traits preview`` do."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.objects import read_object
from hookline.cli.terminal_text import printable

LOOK_SECONDS = 0.3
ENDED = ("done", "failed")


def print_preview(admin: AdminApi, noun: str, file: Path, as_json: bool) -> int:
    """Ask, wait until it is done, and print how many and who."""
    wanted = read_object(file)
    if noun == "a computed trait":
        body: Json = {"computedTrait": wanted}
    elif isinstance(wanted, dict) and "condition" in wanted:
        body = {"condition": wanted["condition"]}
    else:
        raise CommandFailed(f"{file} must hold one audience, with a condition")
    found = _until_ended(admin, admin.request("POST", "/audience-previews", body), as_json)
    if found["state"] == "failed":
        raise CommandFailed(found["detail"])
    print(json.dumps(found) if as_json else "\n".join(_lines(found)))
    return 0


def _until_ended(admin: AdminApi, view: Json, quiet: bool) -> Json:
    """Look again until it has ended; on a terminal the last line shows how far it is."""
    live = sys.stdout.isatty() and not quiet
    while view["state"] not in ENDED:
        if live:
            print(f"\r{view['state']} {view['progress']:.0%}   ", end="", flush=True)
        time.sleep(LOOK_SECONDS)
        view = admin.get(f"/audience-previews/{view['id']}")
    if live:
        print("\r", end="")
    return view


def _lines(found: Json) -> Iterator[str]:
    yield f"{found['members']:,} of {found['people']:,} people{', such as' if found['sample'] else ''}"
    for each in found["sample"]:
        who = each["userId"] if each["userId"] is not None else f"{each['anonymousId']} (anonymous)"
        value = "" if each["value"] is True else f": {json.dumps(each['value'], ensure_ascii=False)}"
        yield printable(f"  {who}{value}")
