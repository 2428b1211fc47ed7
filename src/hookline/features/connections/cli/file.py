"""``hookline check``, ``diff`` and ``apply``: connections as a file, shown as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.cli.tables import print_items
from hookline.cli.target import printable
from hookline.connections.definitions.model import Definition
from hookline.connections.model import Destination
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
        path = f" {problem.path}:" if problem.path else ""
        place = f"{file}:{problem.line}" if problem.line else str(file)
        print(f"{place}:{path} {problem.message} ({problem.code})")
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
    if as_json:
        print(json.dumps(answer))
        return 0
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


EVENTS_READ_MAX = 100_000
"""Events looked through for those of a destination's sources."""


def tried_filters(file: Path, data_path: Path) -> Iterator[str]:
    """Yield lines for each destination with filters; nothing where the data folder has no events to try them on."""
    from hookline.connections import file as connections
    from hookline.journal.port import JournalError

    text, _ = connections.load(file)
    configuration, _ = connections.read(text)
    filtered = [destination for _, destination in configuration.destinations if destination.filters]
    if not filtered or not (data_path / "journal").is_dir():
        return
    try:
        for destination in filtered:
            yield from _tried(destination, data_path / "journal")
    except OSError as error:
        yield f"the filters were not tried: cannot read {error.filename}: {error.strerror}"
    except JournalError as error:
        yield f"the filters were not tried: {error}"


def _tried(destination: Destination, folder: Path) -> Iterator[str]:
    from hookline.journal.opening import open_reader
    from hookline.journal.reading import newest_first
    from hookline.route.filter_trial import try_filters

    with closing(open_reader(folder)) as journal:
        ends = {partition: journal.end(partition) for partition in journal.partitions()}
        newest = islice(newest_first(journal, ends), EVENTS_READ_MAX)
        trial = try_filters(destination, (place.record for place in newest), samples_max=0)
    if trial.total == 0:
        yield f"{destination.id}: no events of its sources are kept to try the filters on"
        return
    yield (
        f"{destination.id}: matched {trial.matched} of {trial.total} recent events; {trial.filtered} would not be sent,"
        f" {trial.changed} would be changed"
    )
    for each in trial.filters:
        yield f"  {each.rule}: matched {each.matched} of {trial.total}"


def doubtful_definitions(file: Path, retention_seconds: float) -> Iterator[str]:
    """Yield a line for each doubt about a file that has no problems."""
    from hookline.connections import file as connections
    from hookline.connections.check import join
    from hookline.connections.definitions.check import definition_warnings

    text, _ = connections.load(file)
    configuration, _ = connections.read(text)
    definitions: list[tuple[str, Definition]] = [*configuration.audiences, *configuration.computed_traits]
    for path, definition in definitions:
        for place, sentence in definition_warnings(definition, retention_seconds):
            yield f"{definition.id}: {join(path, place)}: {sentence}"


SIGNS = {"create": "+", "change": "~", "delete": "-"}


_COLOURS = {"create": "green", "change": "yellow", "delete": "red"}


def print_changes(changes: Sequence[dict[str, Any]], *, would: bool) -> None:
    """Print what changed, or would change; objects that stay are not shown."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    shown = [change for change in changes if change["action"] in SIGNS]
    for change in shown:
        colour = _COLOURS[change["action"]]
        note = f"  ({printable(change['note'])})" if change.get("note") else ""
        console.print(Text(f"{SIGNS[change['action']]} {_kind(change)} {printable(change['id'])}{note}", colour))
        for field in change.get("fields") or []:
            line = Text(f"    {printable(field['path'])}: ")
            if change["action"] == "change":
                line.append(_value(field.get("before")), "red").append(" → ")
            kept = "before" if change["action"] == "delete" else "after"
            line.append(_value(field.get(kept)), "red" if kept == "before" else "green")
            console.print(line)
    if not shown:
        print("nothing to change")
    elif would:
        print(f"{len(shown)} would change")


def _kind(change: dict[str, Any]) -> str:
    return str(change["kind"]).replace("computedTrait", "computed trait")


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def list_versions(admin: AdminApi, limit: int, as_json: bool, utc: bool) -> int:
    """Print the newest changes, a line each."""
    versions = admin.newest("/connections/versions", limit)
    if as_json:
        print(json.dumps({"items": versions}))
        return 0
    columns = ("Version", "Time", "By", "Objects")
    print_items(versions, _line, "the connections were never changed", columns, _cells, utc)
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
    answer = admin.request("POST", f"/connections/versions/{number}/roll-back", {"dryRun": dry_run}, APPLY_SECONDS)
    if as_json:
        print(json.dumps(answer))
        return 0
    print_changes(answer["changes"], would=dry_run)
    if answer["changes"] and not dry_run:
        print(f"this is version {answer['version']}; undo with: hookline rollback {answer['version'] - 1}")
    return 0


def _line(version: dict[str, Any]) -> str:
    return f"{_head(version)}  {_objects(version)}"


def _cells(version: dict[str, Any], at: Callable[[str | None], str]) -> list[object]:
    return [version["version"], at(version["at"]), version["author"], _objects(version)]


def _objects(version: dict[str, Any]) -> str:
    objects = ", ".join(
        f"{SIGNS[change['action']]}{_kind(change)} {printable(change['id'])}"
        + (f" ({printable(change['note'])})" if change.get("note") else "")
        for change in version["changes"]
    )
    more = version["objects"] - len(version["changes"])
    return f"{objects}{f' and {more} more' if more else ''}"


def _head(version: dict[str, Any]) -> str:
    return f"{version['version']:>5}  {version['at']}  {printable(version['author'])}"
