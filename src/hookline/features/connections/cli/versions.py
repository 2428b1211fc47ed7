"""``hookline history`` and ``rollback``: what changed the connections, and the way back."""

from __future__ import annotations

import json
from typing import Any

from hookline.cli.admin_api import AdminApi
from hookline.cli.terminal_text import printable
from hookline.features.connections.cli.change_lines import SIGNS, print_changes


def list_versions(admin: AdminApi, limit: int, as_json: bool) -> int:
    """Print the newest changes, a line each."""
    versions = admin.newest("/connections/versions", limit)
    if as_json:
        print(json.dumps({"items": versions}))
        return 0
    for version in versions:
        print(_line(version))
    if not versions:
        print("the connections were never changed")
    return 0


def show_version(admin: AdminApi, number: int, as_json: bool) -> int:
    """Print one change with every field."""
    version = admin.get(f"/connections/versions/{number}")
    if as_json:
        print(json.dumps(version))
        return 0
    print(_head(version))
    print_changes(version["changes"], would=False)
    return 0


def roll_back(admin: AdminApi, number: int, *, dry_run: bool, as_json: bool) -> int:
    """Make the connections be as they were at a version, and print what that changed or would change."""
    answer = admin.request("POST", f"/connections/versions/{number}/roll-back", {"dryRun": dry_run})
    if as_json:
        print(json.dumps(answer))
        return 0
    print_changes(answer["changes"], would=dry_run)
    if answer["changes"] and not dry_run:
        print(f"this is version {answer['version']}; undo with: hookline rollback {answer['version'] - 1}")
    return 0


def _line(version: dict[str, Any]) -> str:
    objects = ", ".join(
        f"{SIGNS[change['action']]}{change['kind']} {printable(change['id'])}"
        + (f" ({printable(change['note'])})" if change.get("note") else "")
        for change in version["changes"]
    )
    more = version["objects"] - len(version["changes"])
    return f"{_head(version)}  {objects}{f' and {more} more' if more else ''}"


def _head(version: dict[str, Any]) -> str:
    return f"{version['version']:>5}  {version['at']}  {printable(version['author'])}"
