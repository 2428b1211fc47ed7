"""Connections as a file: reading and checking ``connections.yaml``, comparing, applying and exporting it.

Owns the file's shape and what belongs to it (``OWNER``); the rules for what it says are ``check``'s and the store's.
Never touches what was made through the API, unless the file says exactly the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from hookline.connections.check import PLAN_LEVEL, Problem, check_all
from hookline.connections.definitions.model import Definition
from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.file_shape import Configuration, YamlTree, read_configuration
from hookline.connections.history import KINDS, WORDS
from hookline.connections.model import BATCH_BYTES_MIN, DeliveryOptions, Destination, Offsets, SecretSetting, Snapshot
from hookline.connections.notification_secrets import hidden, restored
from hookline.connections.notifications import Notification
from hookline.connections.past import Change, compare
from hookline.connections.rotation import carry_rotations, with_rotated
from hookline.connections.secrets import NothingToKeep, redact, restore
from hookline.connections.state import Object, Stored, kind_of
from hookline.connections.store import ChangeRefused, Store, VersionConflict

OWNER = "file"
ALWAYS_WRITTEN = ("sources", "destinations")
"""The sections that an exported file has even when they are empty."""
STILL_DRAINS = "was disabled and still gets what was accepted before; the file enables it when it is applied after that"
FILE_BYTES_MAX = 16 * 1024 * 1024
_APPLY_TRIES = 3
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Applied(msgspec.Struct, frozen=True):
    """Hold what ``apply`` did, or would do: nothing at all if there are problems."""

    version: int
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()


def load(path: Path) -> tuple[str, list[Problem]]:
    """Return the text of the file, or why it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return "", [Problem("file_unreadable", "", f"cannot read {path}: {error.strerror}")]
    if len(content) > FILE_BYTES_MAX:
        return "", [Problem("file_unreadable", "", f"{path} is larger than {FILE_BYTES_MAX} bytes")]
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return "", [Problem("file_unreadable", "", f"{path} is not UTF-8 text; save it as UTF-8", line)]


def read(text: str) -> tuple[Configuration, list[Problem]]:
    """Return the objects that a file's text describes, and what is wrong with its shape."""
    return read_configuration(YamlTree(text))


def check(path: Path, plan_level: str = PLAN_LEVEL) -> list[Problem]:
    """Return the first problems of the file by itself: a destination's sources must be in it too."""
    text, problems = load(path)
    return problems or check_text(text, plan_level)


def check_text(text: str, plan_level: str = PLAN_LEVEL) -> list[Problem]:
    """As ``check``, for text that is already at hand."""
    configuration, problems = read(text)
    if not problems:
        found = check_all(
            configuration.sources,
            configuration.destinations,
            plan_level,
            configuration.audiences,
            configuration.computed_traits,
            configuration.notifications,
        )
        problems = configuration.placed(found)
    return problems


def diff(store: Store, text: str, prune: bool = False) -> Applied:
    """Return what ``apply`` would do."""
    return apply(store, text, author="", ends=dict, prune=prune, dry_run=True)


def apply(
    store: Store,
    text: str,
    author: str,
    ends: Callable[[], Offsets],
    prune: bool = False,
    dry_run: bool = False,
    draining: Collection[str] = (),
) -> Applied:
    """Make what the file owns be as it says, in one change; with ``prune`` delete what it owns and no longer has.

    Unchanged objects and their lanes are not touched. With problems nothing is changed. Destinations of ``draining``
    stay disabled; of others that drain it is a problem to enable them.
    """
    configuration, problems = read(text)
    if problems:
        return Applied(store.version, problems=tuple(problems))
    for _ in range(_APPLY_TRIES):
        version = store.version
        changes, edits, problems = _plan(store, configuration, prune, draining)
        if dry_run and not problems:
            problems = store.check(edits)
        if dry_run or problems:
            return Applied(version, tuple(changes), tuple(configuration.placed(problems)))
        try:
            version = store.change(edits, author, OWNER, ends, expected_version=version)
        except VersionConflict:
            continue
        except ChangeRefused as refused:
            return Applied(version, problems=tuple(configuration.placed(refused.problems)))
        return Applied(version, tuple(changes))
    raise VersionConflict(store.version)


def export(snapshot: Snapshot) -> str:
    """Return the connections as a file that ``apply`` reads back; ``keep`` stands for the stored secrets."""
    document = {
        "sources": [_document(source) for source in snapshot.sources],
        "destinations": [_document(redact(destination, keep=True)) for destination in snapshot.destinations],
        "audiences": [_document(audience) for audience in snapshot.audiences],
        "computedTraits": [_document(trait) for trait in snapshot.computed_traits],
        "notifications": [_document(hidden(rule, keep=True)) for rule in snapshot.notifications],
    }
    return _written({name: objects for name, objects in document.items() if objects or name in ALWAYS_WRITTEN})


def definition_text(definition: Definition) -> str:
    """Return one audience or computed trait as it stands in the file."""
    section = "audiences" if kind_of(definition) == "audience" else "computedTraits"
    return _written({section: [_document(definition)]})


def _written(document: object) -> str:
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=120)
    return text


def _plan(
    store: Store, configuration: Configuration, prune: bool, draining: Collection[str]
) -> tuple[list[Change], list[Edit], list[Problem]]:
    changes: list[Change] = []
    edits: list[Edit] = []
    problems: list[Problem] = []
    for path, object in configuration.objects():
        stored = store.stored(kind_of(object), object.id)
        object, stale = _with_rotated(object, stored)
        note = None
        if isinstance(object, Destination) and object.enabled and object.id in draining:
            object, note = replace(object, enabled=False), STILL_DRAINS
        put = Put(object, path)
        after = _restored(object, stored)
        if stored is not None and stored.owner != OWNER and stored.object != after:
            message = (
                f"{WORDS[put.kind]} {put.id!r} was made through the API and differs from the file; choose another id, "
                "delete it there, or write it here as `hookline export` shows it"
            )
            problems.append(Problem("made_elsewhere", path, message))
        edits.append(put)
        changes.append(_change(put, stored, after, stale, note))
    named = {(edit.kind, edit.id) for edit in edits}
    for left in _owned(store):
        if (left.kind, left.id) in named:
            continue
        if prune:
            edits.append(left)
            changes.append(Change("delete", left.kind, left.id))
        else:
            note = "no longer in the file; deleted only with --prune"
            changes.append(Change("keep", left.kind, left.id, note=note))
    return changes, edits, problems


def _change(
    put: Put, stored: Stored[Any] | None, after: Object, stale: Sequence[SecretSetting], note: str | None
) -> Change:
    if stale:
        note = f"the file has a secret that was rotated out ({', '.join(stale)}); the new one stays, write keep there"
    if stored is None:
        return Change("create", put.kind, put.id, compare(None, after))
    if stored.object != after:
        return Change("change", put.kind, put.id, compare(stored.object, after), note, bool(stale))
    if note is None and stored.owner != OWNER:
        note = "was made through the API and is the file's from now on"
    return Change("keep", put.kind, put.id, note=note, stale_secret=bool(stale))


def _restored(object: Object, stored: Stored[Any] | None) -> Object:
    before = None if stored is None else stored.object
    try:
        if isinstance(object, Notification):
            return restored(object, before)
        if isinstance(object, Destination):
            return carry_rotations(restore(object, before), before)
    except NothingToKeep:
        pass  # the store's own check says where
    return object


def _with_rotated(object: Object, stored: Stored[Any] | None) -> tuple[Object, list[SecretSetting]]:
    """Return the object without secrets that were rotated out: a file that still has one must not undo the rotation,
    nor keep the service from starting."""
    if not isinstance(object, Destination):
        return object, []
    return with_rotated(object, None if stored is None else stored.object)


def _owned(store: Store) -> Sequence[Delete]:
    """Everything the file owns, what names others before what is named."""
    return [
        Delete(kind, stored.object.id)
        for kind in reversed(KINDS)
        for stored in store.in_force(kind)
        if stored.owner == OWNER
    ]


def _document(object: Object) -> dict[str, Any]:
    """Return the object without what is as good as absent."""
    built: dict[str, Any] = msgspec.to_builtins(object)
    for webhook in built.get("settings", {}).get("webhooks", ()):
        if not webhook["headers"]:
            del webhook["headers"]
    if not built.get("filters", True):
        del built["filters"]
    if built.get("rateLimit") == {}:
        del built["rateLimit"]
    if built.get("batchBytes") == BATCH_BYTES_MIN:
        del built["batchBytes"]
    built.pop("rotations", None)  # nobody's to write; they go on where they are
    for name in ("sharedSecret", "standardWebhooks", "clientCertificate", "clientKey"):
        if built.get("settings", {}).get(name, "") is None:  # other kinds than webhooks do not have them
            del built["settings"][name]
    if "delivery" in built:
        built["delivery"] = {name: value for name, value in built["delivery"].items() if value != _USUAL[name]}
        if not built["delivery"]:
            del built["delivery"]
    if isinstance(object, Notification):
        built = {name: value for name, value in built.items() if value not in ((), [])}
    return {name: value for name, value in built.items() if value is not None}


_USUAL: dict[str, Any] = msgspec.to_builtins(DeliveryOptions())
