"""Try a kind that somebody writes: its folder, the package around it, and the requests for its test event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hookline.api.problem import Problem
from hookline.connections.model import Destination
from hookline.features.catalog.check import KindFault, example_settings, folder_faults
from hookline.features.destinations.tester.chosen_event import accepted, sample_event
from hookline.features.destinations.tester.request_writer import RequestWriter, ShownRequest, shown
from hookline.kinds.catalog import MANIFEST
from hookline.kinds.model import KindSettings, Manifest
from hookline.settings import Settings

EVENT_FILE = "event.json"
EVENT_BYTES_MAX = 32_768
PROJECT_FILE = "pyproject.toml"
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MOMENT = "2026-01-02T03:04:05.678Z"


class SeveralKinds(ValueError):
    """A folder holds more than one kind; the message says which."""


def try_kind(folder: Path, quiet: bool) -> tuple[Path, Manifest | None, list[KindFault], list[ShownRequest]]:
    """Return the folder of a kind, what its ``kind.yaml`` says, everything wrong with it, and the requests for its test
    event, none with ``quiet``. Raise SeveralKinds."""
    package = _package_of(folder)
    manifest, faults = folder_faults(package)
    faults += _project_faults(folder, package)
    requests, unmade = ([], []) if manifest is None or faults or quiet else _requests(manifest, package)
    return package, manifest, faults + unmade, requests


def _package_of(folder: Path) -> Path:
    """Return the folder with the manifest: the one given, or the only one below it that has one."""
    if (folder / MANIFEST).is_file() or not folder.is_dir():
        return folder
    found = sorted(path.parent for pattern in (f"*/{MANIFEST}", f"src/*/{MANIFEST}") for path in folder.glob(pattern))
    if len(found) > 1:
        raise SeveralKinds(f"{folder} holds {len(found)} kinds; name one of {', '.join(map(str, found))}")
    return found[0] if found else folder


def _project_faults(folder: Path, package: Path) -> Iterator[KindFault]:
    """Yield what keeps a package from being found, where there is one around the kind's folder."""
    file = folder / PROJECT_FILE
    if package == folder or not file.is_file():
        return
    try:
        text = file.read_text(encoding="utf-8")
        project = msgspec.toml.decode(text)
    except (OSError, ValueError) as error:
        yield KindFault(PROJECT_FILE, f"it cannot be read: {error}")
        return
    points = project.get("project", {}).get("entry-points", {}).get("hookline.destinations", {})
    if package.name not in {str(each).rpartition(".")[2] for each in points.values()}:
        detail = (
            f'name the kind under [project.entry-points."hookline.destinations"]: {package.name} = "{package.name}"'
        )
        yield KindFault(PROJECT_FILE, detail)
    for id in points:
        if not _ID.fullmatch(id):
            yield KindFault(PROJECT_FILE, f"{id!r} cannot be the id of a kind; use small letters, digits, - and _")


def _requests(manifest: Manifest, package: Path) -> tuple[list[ShownRequest], list[KindFault]]:
    """Return the requests for the test event, with settings made up of the schema's examples, or why there are none."""
    if not manifest.requests:
        return [], []
    settings = example_settings(manifest.settings)
    if manifest.auth is not None:  # the kind http has its authorization among its settings
        settings = {**settings, "auth": msgspec.to_builtins(manifest.auth)}
    tried = Destination(
        id="tried", name="Tried", kind="http", settings=KindSettings(settings), mapping=manifest.requests
    )
    event = package / EVENT_FILE
    try:
        body = event.read_bytes()[: EVENT_BYTES_MAX + 1] if event.is_file() else sample_event("track", _MOMENT)
        record = accepted(msgspec.Raw(body), "test", 0)
        written = RequestWriter(Settings()).shown_only(tried, record)
    except Problem as problem:
        return [], [KindFault(EVENT_FILE, problem.detail)]
    except (OSError, ValueError) as error:
        return [], [KindFault(EVENT_FILE, f"no request can be made of it: {error}")]
    faults = [KindFault(each.pointer.replace("/mapping", "/requests", 1), each.detail) for each in written.problems]
    if not written.requests and not faults:
        faults.append(KindFault(EVENT_FILE, "no request matches this event; write one that the kind has a request for"))
    return [shown(each, tried, reveal=False) for each in written.requests], faults
