"""What ``hookline audit-log`` prints: a line per entry, and below it what became of each field."""

from __future__ import annotations

import json

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.terminal_text import printable


def print_audit_log(admin: AdminApi, wanted: Json, limit: int, as_json: bool) -> int:
    """The newest entries that match, at most ``limit``."""
    items = admin.newest("/audit-log", limit, **wanted)
    if as_json:
        print(json.dumps(items))
    else:
        print("\n".join(line for entry in items for line in _lines(entry)) or "there is nothing of that")
    return 0


def _lines(entry: Json) -> list[str]:
    action = entry["action"].replace("_", " ")
    kind = " (account)" if entry.get("actorKind") == "account" else ""
    first = f"{entry['at']}  {entry['actor']}{kind}  {action}  {entry['target']}  from {entry['address']}"
    if entry.get("count"):
        first += f"  {entry['count']} times, last at {entry['lastAt']}"
    fields = [
        f"    {change['object']} {change['path']}: {_shown(change['before'])} → {_shown(change['after'])}"
        for change in entry["changes"]
    ]
    return [printable(line) for line in (first, *fields)]


def _shown(value: Json) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)
