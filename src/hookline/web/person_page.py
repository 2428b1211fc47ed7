"""What the page of a person shows: who it is, what is known with where it comes from, and the time line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from hookline.connections.definitions.model import Audience
from hookline.control.audience_explanation import Explanation, explanation_of
from hookline.control.person_events import PersonEvent, person_events
from hookline.control.person_log import PersonReader
from hookline.control.person_view import Defined, PersonAudience, PersonComputedTrait, PersonView, person_view
from hookline.control.trait_explanation import TraitExplanation, trait_explanation_of
from hookline.events.timestamps import iso, parse
from hookline.people.store.memberships import Change
from hookline.people.store.people import Identity, Person
from hookline.people.timeline import Ownership
from hookline.web.address import address, event_href, person_href

ROWS_ON_A_PAGE = 50
SEARCH_SECONDS_MAX = 0.15
"""A page does not keep anybody waiting: what was not looked at by then is on the next one."""
IDS_SHOWN = 20
TRAITS_SHOWN = 50
OUT_SHOWN = 20
NEVER = 1 << 62
AUDIENCE, TRAIT = "audience/", "trait/"
"""What ``why`` begins with in the address; the id follows."""


class Moment(NamedTuple):
    """A line of the time line: an event. ``happened_at`` is the event's own time where that is another; ``under`` is
    the id it came with where that is not the page's."""

    at_ms: int
    key: str
    href: str
    type: str
    name: str
    summary: str
    source: str
    under: str
    received_at: str
    happened_at: str
    told: str
    rejected: str


class MembershipMoment(NamedTuple):
    """A line of the time line: a sync found that the person had come to an audience, or gone."""

    at_ms: int
    key: str
    href: str
    name: str
    member: bool
    sync: int | None
    at: str


class AudienceLine(NamedTuple):
    """An audience, and the address that unfolds why (or folds it again)."""

    of: PersonAudience
    why_href: str
    why: Explanation | None


class ComputedLine(NamedTuple):
    """A computed trait, and the address that unfolds what it comes from."""

    of: PersonComputedTrait
    why_href: str
    why: TraitExplanation | None


class PersonPage(NamedTuple):
    """The whole page; ``person`` is None of whom profiles know nothing. ``owned`` has all ids."""

    asked: Identity
    person: PersonView | None
    owned: Ownership
    audiences_in: Sequence[AudienceLine]
    audiences_out: Sequence[AudienceLine]
    audiences_more: int
    computed: Sequence[ComputedLine]
    moments: Sequence[Moment | MembershipMoment]
    first_href: str
    after_href: str
    is_short: bool
    events_href: str

    @property
    def name(self) -> str:
        """Return what the page is headed with."""
        return (self.person.user_id if self.person else None) or self.asked.id


def person_page(
    reader: PersonReader,
    asked: Identity,
    known: Defined,
    *,
    after: str | None,
    until_ms: int | None,
    why: str,
    now_ms: int,
) -> PersonPage:
    """Read everything of a person; on the reader's thread. Raise Problem for a bad cursor.

    ``until_ms`` goes with ``after``: when the last event of the page before was received.
    """
    found = reader.find(asked)
    listing = person_events(reader, found, ROWS_ON_A_PAGE, after, SEARCH_SECONDS_MAX)
    view = person_view(reader.profiles, found.person, known) if reader.profiles and found.person else None
    explained = _explained(reader, asked, known, why, now_ms) if view is not None else None
    here = person_href(*_ids(asked))
    audiences = [_audience(here, each, explained) for each in view.audiences] if view else []
    out = [each for each in audiences if not each.of.member]
    moments = [_moment(event, asked.id) for event in listing.items]
    ended_ms = (moments[-1].at_ms if moments else until_ms or NEVER) if listing.after else 0
    changes = _changes(reader, found.person, known, ended_ms, NEVER if until_ms is None else until_ms)
    shown = [each for each in out if each.why] + [each for each in out if not each.why][:OUT_SHOWN]
    return PersonPage(
        asked=asked,
        person=view,
        owned=found.owned,
        audiences_in=[each for each in audiences if each.of.member],
        audiences_out=shown,
        audiences_more=len(out) - len(shown),
        computed=[_computed(here, each, explained) for each in view.computed_traits] if view else [],
        moments=sorted([*moments, *changes], key=lambda each: each.at_ms, reverse=True),
        first_href=address(here, {"why": why}) if after else "",
        after_href=address(here, {"after": listing.after, "until": ended_ms, "why": why}) if listing.after else "",
        is_short=listing.after is not None and len(listing.items) < ROWS_ON_A_PAGE,
        events_href=address("/events", {"userId": asked.id}),
    )


def _ids(asked: Identity) -> tuple[str | None, str | None]:
    """User id and anonymous id, one of which is None."""
    return (asked.id, None) if asked.kind == "user" else (None, asked.id)


def _explained(
    reader: PersonReader, asked: Identity, known: Defined, why: str, now_ms: int
) -> Explanation | TraitExplanation | None:
    assert reader.profiles is not None, "somebody is known"
    audience = known.audiences.get(why.removeprefix(AUDIENCE)) if why.startswith(AUDIENCE) else None
    if audience is not None:
        return explanation_of(reader.profiles, audience, known.traits, *_ids(asked), now_ms)
    trait = known.traits.get(why.removeprefix(TRAIT)) if why.startswith(TRAIT) else None
    return None if trait is None else trait_explanation_of(reader.profiles, trait, *_ids(asked), now_ms)


def _audience(here: str, audience: PersonAudience, explained: Explanation | TraitExplanation | None) -> AudienceLine:
    why = explained if isinstance(explained, Explanation) and explained.audience == audience.id else None
    asks = "" if why is not None else AUDIENCE + audience.id
    return AudienceLine(audience, f"{address(here, {'why': asks})}#audience-{audience.id}", why)


def _computed(here: str, trait: PersonComputedTrait, explained: Explanation | TraitExplanation | None) -> ComputedLine:
    why = explained if isinstance(explained, TraitExplanation) and explained.computed_trait == trait.id else None
    asks = "" if why is not None else TRAIT + trait.id
    return ComputedLine(trait, f"{address(here, {'why': asks})}#trait-{trait.id}", why)


def _changes(
    reader: PersonReader, person: Person | None, known: Defined, above_ms: int, until_ms: int
) -> list[MembershipMoment]:
    """Return the changes that belong between the events of a page."""
    if reader.profiles is None or person is None:
        return []
    return [
        _change(change, known.audiences.get(change.audience))
        for change in reader.profiles.membership_changes(person)
        if above_ms < change.at_ms <= until_ms
    ]


def _change(change: Change, audience: Audience | None) -> MembershipMoment:
    return MembershipMoment(
        at_ms=change.at_ms,
        key=f"{change.audience} {change.at_ms}",
        href=f"/audiences/{quote(change.audience, safe='')}",
        name=change.audience if audience is None else audience.name,
        member=change.member,
        sync=change.sync,
        at=iso(change.at_ms),
    )


def _moment(event: PersonEvent, asked: str) -> Moment:
    under = event.user_id or event.anonymous_id or ""
    return Moment(
        at_ms=parse(event.received_at) or 0,
        key=f"{event.source} {event.message_id} {event.received_at}",
        href=event_href(event.message_id, event.source),
        type=event.type,
        name=event.name,
        summary=event.summary,
        source=event.source,
        under="" if under == asked else under,
        received_at=event.received_at,
        happened_at="" if _same_minute(event) else event.timestamp,
        told="" if event.origin == "sdk" else event.origin,
        rejected=event.rejected or "",
    )


def _same_minute(event: PersonEvent) -> bool:
    return event.timestamp[:16] == event.received_at[:16]
