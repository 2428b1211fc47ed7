"""What the commands of single objects do: each is one call of the admin API, printed in lines or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi
from hookline.cli.failure import CommandFailed
from hookline.cli.send import parse_values
from hookline.cli.terminal_text import printable
from hookline.setting_text import written

STDIN = "-"


def print_objects(admin: AdminApi, collection: str, as_json: bool) -> int:
    """Every object of a collection: id, name, and what is special about it."""
    objects = admin.every(f"/{collection}")
    if as_json:
        print(json.dumps(objects))
        return 0
    for each in objects:
        words = [each.get("id") or each.get("kind"), each.get("name"), each.get("type") or each.get("summary")]
        words += [", ".join(each[key]) for key in ("sources", "destinations") if each.get(key)]
        words += ["disabled"] if each.get("enabled") is False else []
        print(printable("  ".join(str(word) for word in words if word)))
    if not objects:
        print("there are none", file=sys.stderr)
    return 0


def print_answer(admin: AdminApi, method: str, path: Sequence[str], body: Any, as_json: bool) -> int:
    """Make one call and print its answer as JSON: indented for people, one line for programs."""
    answer = admin.request(method, _path(*path), body)
    print(json.dumps(answer) if as_json else _pretty(answer))
    return 0


def put_object(admin: AdminApi, collection: str, file: Path, as_json: bool) -> int:
    """Create or replace what a file describes; its id is in it."""
    wanted = read_object(file)
    if not isinstance(wanted, dict) or not isinstance(wanted.get("id"), str):
        raise CommandFailed(f"{file} must hold one object with an id")
    return print_answer(admin, "PUT", [collection, wanted["id"]], wanted, as_json)


def change_object(admin: AdminApi, collection: str, id: str, changes: Sequence[str], as_json: bool) -> int:
    """Change fields, named by dotted paths."""
    if not changes:
        raise CommandFailed("say what to change, such as name=New", exit_code=2)
    patch: dict[str, Any] = {}
    for path, value in parse_values("change", list(changes)).items():
        *outer, last = path.split(".")
        inner = patch
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return print_answer(admin, "PATCH", [collection, id], patch, as_json)


def delete_object(admin: AdminApi, collection: str, id: str, as_json: bool) -> int:
    """Delete an object."""
    admin.request("DELETE", _path(collection, id))
    print(json.dumps({"deleted": id}) if as_json else f"deleted {printable(id)}")
    return 0


def print_notices(admin: AdminApi, state: str | None, limit: int, as_json: bool) -> int:
    """The newest notices: number, since when, what, and the next step while it is open."""
    notices = admin.newest("/notices", limit, state=state)
    if as_json:
        print(json.dumps(notices))
        return 0
    for notice in notices:
        over = f"  resolved {notice['resolvedAt']}" if notice.get("resolvedAt") else ""
        print(printable(f"{notice['id']:>5}  {notice['openedAt']}  {notice['severity']:<7}  {notice['message']}{over}"))
        if not over:
            print(printable(f"       → {notice['nextStep']}"))
    return 0


def print_events(admin: AdminApi, wanted: dict[str, str | None], limit: int, as_json: bool) -> int:
    """The newest events that match: when, what, whose, and the fate at each destination."""
    events = admin.newest("/events", limit, **wanted)
    if as_json:
        print(json.dumps(events))
        return 0
    for event in events:
        fates = ", ".join(f"{each['id']} {each['fate']}" for each in event["destinations"]) or event["fate"]
        name = event["event"].get("event") or event["event"].get("name") or ""
        line = (
            f"{event['receivedAt']}  {event['type']:<8}  {name}  {event['userId'] or ''}  {event['messageId']}  {fates}"
        )
        print(printable(line))
    return 0


def print_settings(admin: AdminApi, as_json: bool) -> int:
    """Every setting with its value and origin."""
    settings = admin.every("/settings")
    if as_json:
        print(json.dumps(settings))
        return 0
    width = max(len(each["key"]) for each in settings)
    for each in settings:
        print(printable(f"{each['key']:<{width}}  {written(each['key'], each['value'])}  ({each['source']})"))
    return 0


def call_api(admin: AdminApi, method: str, path: str, data: str | None) -> int:
    """Make a call of the admin API and print its answer as it came."""
    text = sys.stdin.read() if data == STDIN else data
    try:
        body = None if text is None else json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"--data is not JSON: {error}", exit_code=2) from None
    answer = admin.request(method, "/" + path.removeprefix("/api/v1").lstrip("/"), body)
    if answer is not None and answer != "":
        print(printable(answer, keep="\n") if isinstance(answer, str) else _pretty(answer))
    return 0


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _pretty(answer: Any) -> str:
    text = json.dumps(answer, indent=2, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"))
    return printable(text, keep="\n")


def read_object(file: Path) -> Any:
    """What a file of JSON or YAML holds, or standard input."""
    import yaml  # JSON is YAML

    try:
        return yaml.safe_load(sys.stdin.read() if str(file) == STDIN else file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandFailed(f"cannot read {file}: {error}") from None
