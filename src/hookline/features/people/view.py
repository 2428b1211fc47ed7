"""Show a person and the person's events as the API has them, and nothing of those whose events are not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from hookline.api.listing import Listing
from hookline.api.problem import Problem
from hookline.api.services import Services
from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.events import untyped
from hookline.events.timestamps import iso
from hookline.events.untyped import text
from hookline.features.events.log import event_name, parse_cursor
from hookline.features.people.service import FoundPerson, PersonReader, ProfileReader, person_log
from hookline.features.privacy.service import deletion_requests, suppressions
from hookline.journal.record import Record
from hookline.people.ingest.extraction import RecordView, view_of
from hookline.people.store.people import IDS_MAX, Identity, Membership, Person
from hookline.people.store.traits import Traits
from hookline.people.sync.results import TRUE, SyncResult
from hookline.people.timeline import Ownership
from hookline.privacy.identities import given
from hookline.privacy.model import DeletionRequest, request_id

REQUESTS_LOOKED_AT = 20
IDENTITIES_LOOKED_AT = 1_000
ERASING = ("looking", "erasing", "clearing")


class Withheld(NamedTuple):
    """Why, since when, and by which deletion request if by one."""

    state: Literal["suppressed", "erasing", "erased"]
    at: str
    request: str | None

    @property
    def says(self) -> str:
        """Return the sentence."""
        by = f" by the deletion request {self.request}" if self.request else ""
        if self.state == "suppressed":
            return f"This person is suppressed{by}: their events are not stored, and nothing is shown."
        if self.state == "erasing":
            return f"This person's data is being erased{by}; nothing is shown any more."
        return f"This person's data was erased{by}."


def refuse(found: Withheld | None) -> None:
    """Raise Problem for somebody of whom nothing may be shown."""
    if found is not None and found.state == "suppressed":
        raise Problem(404, "person_suppressed", found.says)
    if found is not None:
        raise Problem(404, "person_erased", found.says)


def withheld(services: Services, asked: Identity, owned: Ownership | None, is_known: bool) -> Withheld | None:
    """Return whether nothing may be shown of the person that was asked for by one id; ``owned`` has all that are known.

    Of somebody with a user id that is what counts: an anonymous id may be on the list because it was another's too.
    Somebody whose data was erased and of whom something was stored since is a person like any other. Asks a database,
    so not on an event loop.
    """
    others = [Identity("user", id) for id in owned.users] if owned is not None else []
    if owned is not None and not others:
        others = [Identity("anonymous", id) for id in owned.anonymous]
    ids = list(dict.fromkeys([asked, *others]))[:IDENTITIES_LOOKED_AT]
    for each in ids:
        suppression = suppressions(services).find(each.id, each.kind == "user")
        if suppression is not None:
            by = None if suppression.request is None else request_id(suppression.request)
            return Withheld("suppressed", iso(suppression.at_ms), by)
    erasing = _being_erased(services)
    for each in ids:
        if (found := erasing.get(each)) is not None:
            return Withheld("erasing", iso(found.at_ms), request_id(found.number))
    for request in deletion_requests(services).newest(REQUESTS_LOOKED_AT, user_id=asked.id) if not is_known else ():
        if request.action != "suppress":
            return Withheld("erased", iso(request.done_ms or request.updated_ms), request_id(request.number))
    return None


async def withheld_person(services: Services, *asked: Identity) -> Withheld | None:
    """Return the same of the person of the first of some identities that somebody has."""

    def look(reader: PersonReader) -> Withheld | None:
        found = [reader.find(each) for each in asked]
        known = next((each for each in found if each.person is not None), found[0])
        return withheld(services, asked[0], known.owned, known.person is not None)

    return await person_log(services).read(look)


T = TypeVar("T")


def without_withheld(services: Services, items: Iterable[T], who: Callable[[T], Identity]) -> list[T]:
    """Return a list without the people of whom nothing may be shown; asks a database, so not on an event loop."""
    suppressed, erasing = suppressions(services), _being_erased(services)
    known = ((each, who(each)) for each in items)
    return [
        each
        for each, identity in known
        if identity not in erasing and suppressed.find(identity.id, identity.kind == "user") is None
    ]


def either(user_id: str | None, anonymous_id: str | None) -> Identity:
    """Return the identity that a list shows of a person: the user id where there is one."""
    return Identity("anonymous", anonymous_id or "") if user_id is None else Identity("user", user_id)


def _being_erased(services: Services) -> dict[Identity, DeletionRequest]:
    """Return each id that is being erased with its request; those that only wait for receivers have erased theirs."""
    requests = deletion_requests(services)
    return {
        Identity(kind, id): request
        for request in requests.under_way()
        if request.action != "suppress" and request.state in ERASING
        for person in requests.people(request.number)
        for id, is_user in (given(filter(None, (person.user_id,))) | (person.identities or {})).items()
        for kind in (("user", "anonymous") if is_user else ("anonymous",))
    }


SUMMARY_CHARACTERS_MAX = 200


class PersonEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored event. ``name`` is that of a track call, page or screen; ``timestamp`` the event's own time.

    ``summary`` describes a call without a name: the traits of an identify call, the value that a sync sent, the group,
    the previous id. ``origin`` is ``sdk`` for events that were sent to Hookline, and ``audience`` or ``trait`` for
    those of a sync. ``rejected`` is the error code of a rejected event.
    """

    message_id: str
    source: str
    type: str
    name: str
    summary: str
    user_id: str | None
    anonymous_id: str | None
    received_at: str
    timestamp: str
    origin: str
    rejected: str | None


def person_events(
    reader: PersonReader, known: FoundPerson, limit: int, after: str | None, seconds: float
) -> Listing[PersonEvent]:
    """Return one page; it may be short when looking took longer than ``seconds``. Raise Problem for a bad cursor."""
    page = reader.timeline.page(known.owned, limit, seconds, parse_cursor(after) if after else None)
    return Listing([_event(stored.record) for stored in page.found], cursor(page.before))


def cursor(before: Mapping[int, int]) -> str | None:
    """Return where the next page begins; None when there is none."""
    return ",".join(f"{partition}:{offset}" for partition, offset in before.items()) or None


def _event(record: Record) -> PersonEvent:
    view = view_of(record)
    return PersonEvent(
        message_id=record.message_id,
        source=record.source,
        type=record.type,
        name=event_name(record),
        summary=_summary(record, view),
        user_id=text(view.userId) or None,
        anonymous_id=text(view.anonymousId) or None,
        received_at=iso(record.received_at),
        timestamp=record.timestamp,
        origin=record.origin,
        rejected=None if record.rejection is None else record.rejection.code,
    )


def _summary(record: Record, view: RecordView) -> str:
    found = ""
    if record.type == "identify":
        traits = _given(view)
        sent = (f"{name}: {bytes(value).decode()}" for name, value in traits.items())
        found = ", ".join(traits if record.origin == "sdk" else sent)
    elif record.type == "group":
        found = text(view.groupId)
    elif record.type == "alias":
        found = text(view.previousId)
    return found if len(found) <= SUMMARY_CHARACTERS_MAX else found[:SUMMARY_CHARACTERS_MAX] + "…"


def _given(view: RecordView) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(view.traits, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}


class PersonIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """An id that leads to the person; ``kind`` is ``user`` or ``anonymous``."""

    kind: str
    id: str


class PersonTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A trait and the event that set it: its time, its source, and its messageId while the event is stored."""

    name: str
    value: Any
    at: str
    source: str
    message_id: str | None


class PersonGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of the person: since which event, and the traits of the group from any event. ``traitsComplete`` is false
    if some are left out, because the answer has as many traits as it may have."""

    group_id: str
    since: str
    source: str | None
    message_id: str | None
    traits: tuple[PersonTrait, ...]
    traits_complete: bool


class PersonAudience(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An audience as of its last sync: whether the person is a member, since when (null if never), until when if
    nothing new happens, and whether that was sent to destinations."""

    id: str
    name: str
    member: bool
    since: str | None
    until: str | None
    synced: bool


class PersonComputedTrait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A computed trait as of its last sync; null, without ``since``, if it was not computed yet."""

    id: str
    name: str
    value: Any
    since: str | None
    synced: bool


class PersonView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One person. ``userId`` is null if there are only anonymous ids; after an alias it is the newer one.

    ``identitiesTotal`` and ``groupsTotal`` count all ids and groups: at most the first 1,000 ids and 100 groups are
    listed. The traits of the person and of the groups are at most 2,000 of 10 MB together; ``traitsComplete`` is false
    if some of the person's own are left out.
    """

    user_id: str | None
    first_seen_at: str
    identities: tuple[PersonIdentity, ...]
    identities_total: int
    traits: tuple[PersonTrait, ...]
    traits_complete: bool
    groups: tuple[PersonGroup, ...]
    groups_total: int
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


TRAITS_MAX = 2_000
TRAITS_BYTES_MAX = 10_000_000
"""In one answer: as many as one person can have of the largest values."""


def person_view(reader: ProfileReader, person: Person, known: Defined, groups_max: int) -> PersonView:
    """Everything that is known of a person, within bounds; on the reader's thread.

    Values of traits stay the JSON that is stored (``msgspec.Raw``).
    """
    room = _Room(_remembering(reader.record))
    stood = {(each.kind, each.name): each for each in reader.results.of_person(person)}
    traits, traits_complete = room.traits(person.written_traits)
    identities, groups = person.identities(), person.groups(groups_max)
    return PersonView(
        user_id=person.user_id,
        first_seen_at=iso(person.first_seen_ms),
        identities=tuple(map(_identity, identities)),
        identities_total=len(identities) if len(identities) < IDS_MAX else person.identity_count(),
        traits=traits,
        traits_complete=traits_complete,
        groups=tuple(room.group(person, each) for each in groups),
        groups_total=len(groups) if len(groups) < groups_max else person.group_count(),
        audiences=tuple(_audience(known.audiences[id], stood.get(("audience", id))) for id in sorted(known.audiences)),
        computed_traits=tuple(_computed(known.traits[id], stood.get(("trait", id))) for id in sorted(known.traits)),
    )


class _Room:
    """The traits that an answer has room for yet: what it has none for is not read either."""

    def __init__(self, record_at: Callable[[int], Record | None]) -> None:
        self._record_at = record_at
        self._traits = TRAITS_MAX
        self._bytes = TRAITS_BYTES_MAX

    def traits(self, read: Callable[[], Traits]) -> tuple[tuple[PersonTrait, ...], bool]:
        """Return traits by name, without those that were taken back, and whether they are all."""
        found: list[PersonTrait] = []
        if not self._takes(0):
            return (), False
        for name, trait in sorted(read().items()):
            written = bytes(trait.value)
            if written == b"null":
                continue
            if not self._takes(len(name) + len(written)):
                return tuple(found), False
            record = self._record_at(trait.position)
            message_id = None if record is None else record.message_id
            at = iso(trait.at_ms)
            found.append(PersonTrait(name=name, value=trait.value, at=at, source=trait.source, message_id=message_id))
        return tuple(found), True

    def group(self, person: Person, membership: Membership) -> PersonGroup:
        """Return a group with as many of its traits as there is room for."""
        record = self._record_at(membership.position)
        traits, traits_complete = self.traits(lambda: person.written_group_traits(membership.group))
        return PersonGroup(
            group_id=membership.group,
            since=iso(membership.since_ms),
            source=None if record is None else record.source,
            message_id=None if record is None else record.message_id,
            traits=traits,
            traits_complete=traits_complete,
        )

    def _takes(self, length: int) -> bool:
        """Return whether a trait of this length is taken in; once one is not, none is."""
        self._traits -= bool(length)
        self._bytes -= length
        return self._traits >= 0 and self._bytes >= 0


def _identity(identity: Identity) -> PersonIdentity:
    return PersonIdentity(kind=identity.kind, id=identity.id)


def _audience(audience: Audience, stood: SyncResult | None) -> PersonAudience:
    return PersonAudience(
        id=audience.id,
        name=audience.name,
        member=stood is not None and stood.value == TRUE,
        since=None if stood is None else iso(stood.since_ms),
        until=None if stood is None or stood.until_ms is None else iso(stood.until_ms),
        synced=stood is not None and stood.sent == stood.value,
    )


def _computed(trait: ComputedTrait, stood: SyncResult | None) -> PersonComputedTrait:
    return PersonComputedTrait(
        id=trait.id,
        name=trait.name,
        value=None if stood is None else untyped.decode(stood.value),
        since=None if stood is None else iso(stood.since_ms),
        synced=stood is not None and stood.sent == stood.value,
    )


def _remembering(record_at: Callable[[int], Record | None]) -> Callable[[int], Record | None]:
    """Read each position once, for one event gives many traits."""
    read: dict[int, Record | None] = {}

    def remembered(position: int) -> Record | None:
        if position not in read:
            read[position] = record_at(position)
        return read[position]

    return remembered
