"""Everything that is known of one person, each with where it comes from, as the API and the person's page show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.control.profile_log import ProfileReader
from hookline.control.services import Services
from hookline.events.timestamps import iso
from hookline.journal.record import Record
from hookline.people.store.people import Identity, Membership, Person
from hookline.people.store.traits import Traits
from hookline.people.sync.results import TRUE, SyncResult


class PersonIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """An id that leads to the person; ``kind`` is ``user`` or ``anonymous``."""

    kind: str
    id: str


class PersonTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A trait and the event that gave it: its own time, its source, and its messageId while the journal has it."""

    name: str
    value: Any
    at: str
    source: str
    message_id: str | None


class PersonGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of the person: since which event, and the group's traits, whoever gave them."""

    group_id: str
    since: str
    source: str | None
    message_id: str | None
    traits: tuple[PersonTrait, ...]


class PersonAudience(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An audience as its last sync left it: whether the person is a member, since when (null for never looked at or
    never a member), until when if nothing new happens, and whether destinations were told."""

    id: str
    name: str
    member: bool
    since: str | None
    until: str | None
    told: bool


class PersonComputedTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A computed trait as its last sync left it; null and without ``since`` when it has not been looked at."""

    id: str
    name: str
    value: Any
    since: str | None
    told: bool


class PersonView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One person. ``userId`` is null while there are only anonymous ids, and the newer one after an alias."""

    user_id: str | None
    first_seen_at: str
    identities: tuple[PersonIdentity, ...]
    traits: tuple[PersonTrait, ...]
    groups: tuple[PersonGroup, ...]
    audiences: tuple[PersonAudience, ...]
    computed_traits: tuple[PersonComputedTrait, ...]


class Defined(NamedTuple):
    """The audiences and computed traits in force, by id."""

    audiences: dict[str, Audience]
    traits: dict[str, ComputedTrait]


def defined(services: Services) -> Defined:
    """Return what is in force right now."""
    audiences: Sequence[Audience] = [stored.object for stored in services.store.in_force("audience")]
    traits: Sequence[ComputedTrait] = [stored.object for stored in services.store.in_force("computedTrait")]
    return Defined({each.id: each for each in audiences}, {each.id: each for each in traits})


def person_view(reader: ProfileReader, person: Person, known: Defined) -> PersonView:
    """Everything that is known of a person; on the reader's thread."""
    record_at = _remembering(reader.record)
    stood = {(each.kind, each.name): each for each in reader.results.of_person(person)}
    return PersonView(
        user_id=person.user_id,
        first_seen_at=iso(person.first_seen_ms),
        identities=tuple(map(_identity, person.identities())),
        traits=_traits(record_at, person.traits()),
        groups=tuple(_group(record_at, each) for each in person.groups()),
        audiences=tuple(_audience(known.audiences[id], stood.get(("audience", id))) for id in sorted(known.audiences)),
        computed_traits=tuple(_computed(known.traits[id], stood.get(("trait", id))) for id in sorted(known.traits)),
    )


def _identity(identity: Identity) -> PersonIdentity:
    return PersonIdentity(kind=identity.kind, id=identity.id)


def _traits(record_at: Callable[[int], Record | None], traits: Traits) -> tuple[PersonTrait, ...]:
    """By name, without those that were taken back."""
    found = []
    for name, trait in sorted(traits.items()):
        if trait.value is not None:
            record = record_at(trait.place)
            message_id = None if record is None else record.message_id
            at = iso(trait.at_ms)
            found.append(PersonTrait(name=name, value=trait.value, at=at, source=trait.source, message_id=message_id))
    return tuple(found)


def _group(record_at: Callable[[int], Record | None], membership: Membership) -> PersonGroup:
    record = record_at(membership.place)
    return PersonGroup(
        group_id=membership.group,
        since=iso(membership.since_ms),
        source=None if record is None else record.source,
        message_id=None if record is None else record.message_id,
        traits=_traits(record_at, membership.traits),
    )


def _audience(audience: Audience, stood: SyncResult | None) -> PersonAudience:
    return PersonAudience(
        id=audience.id,
        name=audience.name,
        member=stood is not None and stood.value == TRUE,
        since=None if stood is None else iso(stood.since_ms),
        until=None if stood is None or stood.until_ms is None else iso(stood.until_ms),
        told=stood is not None and stood.sent == stood.value,
    )


def _computed(trait: ComputedTrait, stood: SyncResult | None) -> PersonComputedTrait:
    return PersonComputedTrait(
        id=trait.id,
        name=trait.name,
        value=None if stood is None else msgspec.json.decode(stood.value),
        since=None if stood is None else iso(stood.since_ms),
        told=stood is not None and stood.sent == stood.value,
    )


def _remembering(record_at: Callable[[int], Record | None]) -> Callable[[int], Record | None]:
    """Return one event gives many traits: each place is read once."""
    read: dict[int, Record | None] = {}

    def remembered(place: int) -> Record | None:
        if place not in read:
            read[place] = record_at(place)
        return read[place]

    return remembered
