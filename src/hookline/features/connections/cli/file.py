"""``hookline check``, ``diff`` and ``apply``: connections as a file, shown as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.admin_api import AdminApi
from hookline.cli.failure import CommandFailed
from hookline.features.connections.cli.change_lines import print_changes
from hookline.features.connections.cli.definitions import doubtful_definitions
from hookline.features.connections.cli.filters import tried_filters
from hookline.settings import Settings

APPLY_SECONDS = 300.0
"""How long the server may take over a file; ten thousand destinations take it many seconds."""


def check_file(file: Path, settings: Settings, as_json: bool) -> int:
    """Print the file's problems, or what its filters do with recent events; 0 when it has no problems."""
    from hookline.connections.file import check

    problems = check(file, settings.plan.level)
    if as_json:
        print(msgspec.json.encode(problems).decode())
    for problem in [] if as_json else problems:
        print(_sentence(file, msgspec.to_builtins(problem)))
    if not problems and not as_json:
        print(f"{file}: fine")
        for line in (
            *doubtful_definitions(file, settings.retention.events),
            *tried_filters(file, settings.data_path),
        ):
            print(line)
    return 1 if problems else 0


def apply_file(admin: AdminApi, file: Path, *, prune: bool, dry_run: bool, as_json: bool) -> int:
    """Send the file to the server and print what changed, or would change."""
    document = {"document": _read(file), "prune": prune, "dryRun": dry_run}
    answer = admin.request("POST", "/connections/apply", document, APPLY_SECONDS)
    problems = answer.get("problems") or []
    if problems and not as_json:
        raise CommandFailed("nothing was changed\n" + "\n".join(_sentence(file, problem) for problem in problems))
    if as_json:
        print(json.dumps(answer))
        return 1 if problems else 0
    for change in answer["changes"]:
        if change.get("staleSecret") and change["action"] == "keep":
            print(f"= {change['kind']} {change['id']}  ({change['note']})")
    print_changes(answer["changes"], would=dry_run)
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"cannot read the connections file {file}: {error}") from None


def _sentence(file: Path, problem: dict[str, Any]) -> str:
    place = f"{file}:{problem['line']}" if problem.get("line") else str(file)
    path = f" {problem['path']}:" if problem.get("path") else ""
    return f"{place}:{path} {problem['message']} ({problem['code']})"
