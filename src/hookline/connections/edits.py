"""The edits a change is made of, and what is wrong with them against the objects in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from hookline.connections.check import (
    PLAN_LEVEL,
    Problem,
    ProblemCode,
    check_counts,
    check_definitions,
    check_destination,
    check_notification,
    check_plan,
    check_source,
    check_sources,
    check_write_keys,
    join,
)
from hookline.connections.definitions.check import Surroundings, references_of
from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.connections.history import KINDS, WORDS, Kind
from hookline.connections.model import AnySettings, Destination, Source
from hookline.connections.notification_secrets import new_rule_references, restored
from hookline.connections.notifications import Notification
from hookline.connections.rotation import carry_rotations, rotated_out
from hookline.connections.secrets import NothingToKeep, new_references, restore
from hookline.connections.state import Object, State, kind_of


@dataclass(frozen=True, slots=True)
class Put:
    """Create or replace an object; ``path`` is where its problems are said to be.

    ``rotating`` says that the object's rotations are meant; elsewhere the stored ones go on. With ``since`` the edit is
    good only for the object that is in force since then.
    """

    object: Object
    path: str = ""
    rotating: bool = False
    since: int | None = None

    @property
    def kind(self) -> Kind:
        """Return the kind of the object."""
        return kind_of(self.object)

    @property
    def id(self) -> str:
        """Return the id of the object."""
        return self.object.id


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an object; ``since`` as for Put."""

    kind: Kind
    id: str
    path: str = ""
    since: int | None = None


Edit = Put | Delete
CertificateFault = Callable[[AnySettings], str | None]


def restore_secrets(state: State, edits: Sequence[Edit]) -> tuple[list[Edit], list[Problem]]:
    """Return the edits with every ``keep`` and mask replaced by the stored secret, and where there was none."""
    found: list[Edit] = []
    problems: list[Problem] = []
    for edit in edits:
        if isinstance(edit, Put) and isinstance(edit.object, Notification):
            rule = state.notifications.get(edit.id)
            try:
                edit = replace(edit, object=restored(edit.object, None if rule is None else rule.object))
            except NothingToKeep as error:
                problems.append(Problem("nothing_to_keep", join(edit.path, error.path), str(error)))
        if isinstance(edit, Put) and isinstance(edit.object, Destination):
            stored = state.destinations.get(edit.id)
            before = None if stored is None else stored.object
            try:
                wanted = restore(edit.object, before)
            except NothingToKeep as error:
                problems.append(Problem("nothing_to_keep", join(edit.path, error.path), str(error)))
            else:
                if not edit.rotating:
                    problems += _check_rotated_out(edit.path, wanted, before)
                    wanted = carry_rotations(wanted, before)
                edit = replace(edit, object=wanted)
        found.append(edit)
    return found, problems


def check_edits(
    state: State,
    edits: Sequence[Edit],
    plan_level: str = PLAN_LEVEL,
    may_refer: bool = True,
    certificate_fault: CertificateFault = lambda settings: None,
) -> list[Problem]:
    """Return the problems that the objects would have after the edits, each at the edit that brings it.

    Without ``may_refer`` a reference to a secret may only stay where it is. ``certificate_fault`` says what is wrong
    with the client certificate that settings refer to; it is asked where they refer to another one than before.
    """
    gone = {(edit.kind, edit.id) for edit in edits if isinstance(edit, Delete)}
    put = {(edit.kind, edit.id) for edit in edits if isinstance(edit, Put)}
    ids = {kind: (set(state.of_kind(kind)) | _ids(put, kind)) - _ids(gone, kind) for kind in KINDS}
    problems = [*_check_ids(state, edits), *_check_write_keys(state, edits)]
    known = dict.fromkeys(ids["source"])
    for edit in edits:
        if isinstance(edit, Delete):
            problems += _check_unused(state, edit, gone | put)
            continue
        problems += _check_shape(edit)
        if isinstance(edit.object, Notification):
            problems += check_notification(edit.path, edit.object, ids["destination"], ids["source"])
            rule = state.notifications.get(edit.id)
            if not may_refer:
                places = new_rule_references(edit.object, None if rule is None else rule.object)
                problems += [_reference_needs_owner(edit.path, place) for place in places]
        if isinstance(edit.object, Destination):
            problems += _check_drain(state, edit.object, edit.path)
            problems += check_destination(edit.path, edit.object)
            problems += check_sources(edit.path, edit.object, known)
            stored = state.destinations.get(edit.id)
            if not may_refer:
                problems += _check_references(edit.path, edit.object, None if stored is None else stored.object)
            if not problems:
                before = None if stored is None else stored.object.settings.certificate_pair
                problems += _check_certificate(edit.path, edit.object, before, certificate_fault)
            if stored is None or stored.object.filters != edit.object.filters:
                problems += check_plan(edit.path, edit.object, plan_level)
    problems += _check_definitions(state, edits, ids["destination"])
    return problems + check_counts({kind: len(found) for kind, found in ids.items()})


def _check_rotated_out(path: str, wanted: Destination, stored: Destination | None) -> Iterator[Problem]:
    for setting in rotated_out(wanted, stored):
        message = "this secret was rotated out; write keep or the new one, or rotate back to it with rotate-secret"
        yield Problem("rotated_out", join(path, f"settings.{setting}"), message)


def _check_references(path: str, wanted: Destination, stored: Destination | None) -> Iterator[Problem]:
    yield from (_reference_needs_owner(path, place) for place in new_references(wanted, stored))


def _reference_needs_owner(path: str, place: str) -> Problem:
    message = "only an owner may refer to a secret here, as it would be sent to this receiver; ask one, or write it out"
    return Problem("reference_needs_owner", join(path, place), message)


def _check_certificate(
    path: str, wanted: Destination, before: tuple[str, str] | None, certificate_fault: CertificateFault
) -> Iterator[Problem]:
    pair = wanted.settings.certificate_pair
    if pair is None or pair == before:
        return
    fault = certificate_fault(wanted.settings)
    if fault is not None:
        yield Problem("invalid_certificate", join(path, "settings.clientCertificate"), fault)


def _ids(keys: set[tuple[Kind, str]], kind: Kind) -> set[str]:
    return {id for found, id in keys if found == kind}


def _check_ids(state: State, edits: Sequence[Edit]) -> Iterator[Problem]:
    seen: set[tuple[Kind, str]] = set()
    for edit in edits:
        place = join(edit.path, "id")
        if (edit.kind, edit.id) in seen:
            yield Problem("duplicate_id", place, f"another {WORDS[edit.kind]} has the id {edit.id!r}; ids are unique")
        seen.add((edit.kind, edit.id))
        found = state.of_kind(edit.kind).get(edit.id)
        if isinstance(edit, Delete) and found is None:
            message = f"there is no {WORDS[edit.kind]} {edit.id!r}; it may be deleted already"
            yield Problem("not_found", place, message)
        elif edit.since is not None and (found is None or found.since != edit.since):
            message = f"{WORDS[edit.kind]} {edit.id!r} was changed meanwhile; read it again and repeat the change"
            yield Problem("changed_meanwhile", edit.path, message)


def _check_write_keys(state: State, edits: Sequence[Edit]) -> list[Problem]:
    changed = {edit.id for edit in edits if edit.kind == "source"}
    puts = [(edit.path, edit.object) for edit in edits if isinstance(edit, Put) and isinstance(edit.object, Source)]
    problems: list[Problem] = []
    if not puts:
        return problems
    stored = (entry.object for id, entry in state.sources.items() if id not in changed)
    owners = {key: source.id for source in stored for key in source.write_keys}
    for path, source in puts:
        problems += check_source(path, source)
        problems += check_write_keys(path, source, owners)
        owners.update(dict.fromkeys(source.write_keys, source.id))
    return problems


def _check_drain(state: State, destination: Destination, path: str) -> list[Problem]:
    stored = state.destinations.get(destination.id)
    if not destination.enabled or stored is None or stored.lane is None or stored.lane.until is None:
        return []
    message = f"destination {destination.id!r} is disabled and still gets what was accepted before"
    message += "; wait until that is done, or discard it: hookline disable " + destination.id + " --waiting discard"
    return [Problem("draining", join(path, "enabled"), message)]


def _check_definitions(state: State, edits: Sequence[Edit], destinations: set[str]) -> list[Problem]:
    gone = {(edit.kind, edit.id) for edit in edits if isinstance(edit, Delete)}
    placed: list[tuple[str, Definition]] = [
        (edit.path, edit.object)
        for edit in edits
        if isinstance(edit, Put) and isinstance(edit.object, Audience | ComputedTrait)
    ]
    if not placed:
        return []
    audiences = {id: stored.object for id, stored in state.audiences.items() if ("audience", id) not in gone}
    traits = {id: stored.object for id, stored in state.computed_traits.items() if ("computedTrait", id) not in gone}
    for _, definition in placed:
        if isinstance(definition, Audience):
            audiences[definition.id] = definition
        else:
            traits[definition.id] = definition
    return check_definitions(placed, Surroundings(audiences, traits, destinations))


def _check_unused(state: State, edit: Delete, edited: set[tuple[Kind, str]]) -> list[Problem]:
    for id, stored in state.notifications.items():
        named = {"source": stored.object.sources, "destination": stored.object.destinations}.get(edit.kind, ())
        if edit.id in named and ("notification", id) not in edited:
            code: ProblemCode = "source_in_use" if edit.kind == "source" else "destination_in_use"
            message = f"notification {id!r} is about {WORDS[edit.kind]} {edit.id!r}; take it out of there first"
            return [Problem(code, edit.path, message)]
    if edit.kind != "source":
        return _check_unnamed(state, edit, edited)
    users = [
        id
        for id, stored in state.destinations.items()
        if edit.id in stored.object.sources and ("destination", id) not in edited
    ]
    if not users:
        return []
    message = f"source {edit.id!r} still feeds destination {users[0]!r}"
    message += f" and {len(users) - 1} more" if len(users) > 1 else ""
    return [Problem("source_in_use", edit.path, f"{message}; take it out of there first")]


def _check_unnamed(state: State, edit: Delete, edited: set[tuple[Kind, str]]) -> list[Problem]:
    """Audiences and computed traits that would be left with a name of what is gone."""
    for kind in ("audience", "computedTrait"):
        for id, stored in state.of_kind(kind).items():
            definition: Definition = stored.object
            if (kind, id) in edited:
                continue
            if edit.kind == "destination" and edit.id in definition.destinations:
                message = f"destination {edit.id!r} is synced with {WORDS[kind]} {id!r}; remove it there first"
                return [Problem("destination_in_use", edit.path, message)]
            if (edit.kind, edit.id) in {each[:2] for each in references_of(definition)}:
                message = f"audience {id!r} asks for {WORDS[edit.kind]} {edit.id!r}; take it out of there first"
                return [Problem("definition_in_use", edit.path, message)]
    return []


def _check_shape(edit: Put) -> list[Problem]:
    """Return what a struct made by a program may hold and the database would never decode again."""
    try:
        msgspec.json.decode(msgspec.json.encode(edit.object), type=type(edit.object))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        return [Problem("invalid_value", edit.path, str(error))]
    return []
