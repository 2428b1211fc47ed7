"""``hookline pause``, ``resume`` and ``try``: hold a destination back, let it go on, in a sentence or as JSON."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi


def pause_destination(admin: AdminApi, destination: str, reason: str, as_json: bool) -> int:
    """Pause it and print how it stands."""
    standing = admin.request("POST", f"/destinations/{quote(destination, safe='')}/pause", {"reason": reason})
    return _print(standing, f"hookline resume {destination}", as_json)


def disable_destination(admin: AdminApi, destination: str, waiting: str | None, as_json: bool) -> int:
    """Disable it and print how it stands; raise CommandFailed with what waits when nothing was chosen."""
    standing = admin.request("POST", f"/destinations/{quote(destination, safe='')}/disable", {"waiting": waiting})
    if as_json:
        print(json.dumps(standing))
    elif standing["state"] == "draining":
        count = standing["waiting"]["events"] + standing["waiting"]["retrying"]
        print(f"{destination} gets no new events; {count} from before are still sent")
    else:
        print(f"{destination} is disabled")
    return 0


def resume_destination(admin: AdminApi, destination: str, rate: float | None, as_json: bool) -> int:
    """Resume it and print how it stands."""
    standing = admin.request("POST", f"/destinations/{quote(destination, safe='')}/resume", {"rate": rate})
    return _print(standing, f"hookline pause {destination}", as_json)


def try_destination(admin: AdminApi, destination: str, as_json: bool) -> int:
    """Ask for a try at once and print what is done."""
    asked = admin.request("POST", f"/destinations/{quote(destination, safe='')}/try", {})
    if as_json:
        print(json.dumps(asked))
        return 0
    waiting = asked["waiting"]
    about, count = "" if waiting["exact"] else "at most ", waiting["events"] + waiting["retrying"]
    if asked["tries"] == "oldest":
        print(f"the oldest queued event is sent now; if {destination} accepts it, {about}{count} follow")
    else:
        print(f"{waiting['retrying']} events that wait for another attempt are sent now")
    return 0


def _print(standing: dict[str, Any], opposite: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps(standing))
        return 0
    waiting = standing["waiting"]
    count = waiting["events"] + waiting["retrying"]
    words = [f"{standing['id']} is {standing['state']}", f"{'' if waiting['exact'] else 'at most '}{count} waiting"]
    if waiting["oldestAt"]:
        words.append(f"the oldest since {waiting['oldestAt']}")
    print(f"{', '.join(words)}; undo with: {opposite}")
    return 0
