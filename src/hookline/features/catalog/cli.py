"""``hookline kinds``: the kinds that are installed, a folder to start a new one from, and what is wrong with one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cyclopts import App

from hookline.cli.admin_api import CommandFailed
from hookline.cli.app import HERE, OBJECTS, Flag, Json
from hookline.cli.tables import print_table
from hookline.cli.target import Options, printable

kinds_app = App(name="kinds", group=OBJECTS, help="Kinds of destination: list, show, start a new one, check one.")

EVENT_FILE = "event.json"
PROJECT_FILE = "pyproject.toml"
MANIFEST = "kind.yaml"
STARTER = (MANIFEST, "guide.md", "icon.svg", EVENT_FILE)
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@kinds_app.command(name="list")
def list_kinds(*, options: Options = HERE) -> int:
    """List the kinds that are installed where Hookline runs, and those that cannot be used, with the reason."""
    kinds = options.admin().every("/kinds")
    if options.as_json:
        print(json.dumps(kinds))
        return 0
    rows = [
        [each["kind"], each["category"] or "", each["form"] or "unusable", str(each["destinations"]), _state(each)]
        for each in kinds
    ]
    print_table(["Kind", "Category", "Form", "Destinations#", "From"], rows)
    return 0


@kinds_app.command(name="show")
def show_kind(kind: str, /, *, options: Options = HERE) -> int:
    """Show one kind: what it takes, its settings, its requests, and its guide.

    Parameters
    ----------
    kind
        The kind's id, such as http.
    """
    entry = options.admin().request("GET", f"/catalog/{quote(kind, safe='')}")
    if options.as_json:
        print(json.dumps(entry))
        return 0
    for line in _described(entry):
        print(printable(line))
    return 0


@kinds_app.command(name="new")
def new_kind(name: str, /, *, into: Path | None = None) -> int:
    """Make a folder to start a kind from: a package with kind.yaml, guide, icon and a test event.

    Parameters
    ----------
    name
        The kind's id: small letters, digits, - and _.
    into
        The folder to make it in (default: the current one).
    """
    if not _ID.fullmatch(name):
        raise CommandFailed(
            f"{name!r} cannot be the id of a kind; use small letters, digits, - and _, such as acme-crm"
        )
    if resources.files("hookline.kinds").joinpath(name, MANIFEST).is_file():
        raise CommandFailed(f"{name} is a kind that comes with Hookline; choose another id, such as my-{name}")
    folder = (into or Path()) / name
    package = "hookline_" + name.replace("-", "_")
    words = {"NAME": name, "PACKAGE": package, "TITLE": name.replace("-", " ").replace("_", " ").title()}
    try:
        folder.mkdir(parents=True)
        (folder / package).mkdir()
        (folder / PROJECT_FILE).write_text(_filled(PROJECT_FILE, words), encoding="utf-8")
        (folder / package / "__init__.py").write_text("", encoding="utf-8")
        for file in STARTER:
            (folder / package / file).write_text(_filled(file, words), encoding="utf-8")
    except FileExistsError:
        raise CommandFailed(f"{folder} exists already; choose another name, or remove it") from None
    except OSError as error:
        raise CommandFailed(f"cannot write {folder}: {error.strerror}") from None
    print(f"{folder / package / MANIFEST} is the file to begin with. Then:")
    path = folder if folder.is_absolute() else f"./{folder}"  # to pip a bare name is a package of the public index
    print(f"  hookline kinds check {path}     says what is wrong, and shows the requests for {EVENT_FILE}")
    print(f"  pip install {path}              where Hookline is installed; restart Hookline, and it is in the catalog")
    return 0


@kinds_app.command(name="check")
def check_kind(folder: Path, /, *, as_json: Json = False, quiet: Flag = False) -> int:
    """Check a kind's folder: kind.yaml, settings, requests, guide, icon. Then show the requests for its test event.

    Parameters
    ----------
    folder
        The folder with kind.yaml, or the one with the package that has it.
    as_json
        Print JSON on one line.
    quiet
        Do not show the requests.
    """
    # Here: only this command works with what destinations are made of, and a terminal waits for every import.
    from hookline.features.catalog.trial import SeveralKinds, try_kind

    try:
        package, manifest, faults, requests = try_kind(folder, quiet)
    except SeveralKinds as several:
        raise CommandFailed(str(several)) from None
    if as_json:
        problems = [{"pointer": each.pointer, "detail": each.detail} for each in faults]
        shown = [
            {"name": each.name, "method": each.method, "url": each.url, "target": each.target, "body": each.body}
            | {"headers": [{"name": header.name, "value": header.value} for header in each.headers]}
            for each in requests
        ]
        print(json.dumps({"problems": problems, "requests": shown}))
        return 1 if faults else 0
    for fault in faults:
        print(printable(f"{fault.pointer or MANIFEST}: {fault.detail}"))
    if faults:
        print(f"{len(faults)} {'problem' if len(faults) == 1 else 'problems'} in {package}")
        return 1
    assert manifest is not None
    print(printable(f"{manifest.name} is fine. It takes {', '.join(manifest.calls)}."))
    if "delete" not in manifest.calls:
        print('It does not receive deletions. Add a request with the condition type = "delete", and delete to calls.')
    for request in requests:
        print()
        print(printable(f"{request.name}: {request.method} {request.url}"))
        for header in request.headers:
            print(printable(f"  {header.name}: {header.value}"))
        print(printable(f"  {request.body}"))
    return 0


def _state(kind: dict[str, Any]) -> str:
    return f"{kind['origin']}: {kind['problem']}" if kind["problem"] else str(kind["origin"])


def _described(entry: dict[str, Any]) -> Iterator[str]:
    yield f"{entry['name']} ({entry['kind']}), {entry['category']}, from {entry['origin']}"
    yield entry["description"]
    yield f"calls: {', '.join(entry['calls'])}"
    if entry["form"] != "webhook":
        schema = entry["settingsSchema"]
        for name, rule in schema.get("properties", {}).items():
            more = ["needed"] * (name in schema.get("required", ())) + ["secret"] * bool(rule.get("secret"))
            yield f"setting {name}: {rule.get('title', name)}" + (f" ({', '.join(more)})" if more else "")
    for request in entry["requests"]:
        url = request["url"] if isinstance(request["url"], str) else json.dumps(request["url"])
        condition = f" if {request['if']}" if request.get("if") else ""
        yield f"request {request['name']}: {request.get('method', 'POST')} {url}{condition}"
    if entry["guide"]:
        yield ""
        yield from entry["guide"].rstrip().splitlines()


def _filled(file: str, words: dict[str, str]) -> str:
    text = resources.files(__package__).joinpath("starter", f"{file}.txt").read_text(encoding="utf-8")
    return re.sub("NAME|PACKAGE|TITLE", lambda word: words[word[0]], text)
