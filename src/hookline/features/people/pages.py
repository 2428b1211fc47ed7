"""One person's page, and links to it: what is known of them and from where, what they did, what erasing takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from litestar import Controller, Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.listing import id_number
from hookline.api.services import Services
from hookline.connections.definitions.model import Audience
from hookline.events.timestamps import iso, parse
from hookline.events.untyped import scalar, text
from hookline.features.audiences.service import (
    Explanation,
    TraitExplanation,
    explanation_of,
    trait_explanation_of,
)
from hookline.features.events.api import id_in_path
from hookline.features.people.finding import find_people, list_people
from hookline.features.people.service import PersonReader, person_log
from hookline.features.people.view import (
    Defined,
    PersonAudience,
    PersonComputedTrait,
    PersonEvent,
    PersonGroup,
    PersonTrait,
    PersonView,
    defined,
    person_events,
    person_view,
    withheld,
    without_withheld,
)
from hookline.features.privacy.pages import ACTIONS
from hookline.outcomes.event_status import EventStatus
from hookline.people.store.people import Change, Identity, ListedPerson, Person
from hookline.people.timeline import Ownership
from hookline.web.lists import address, event_href, person_href
from hookline.web.rendering import Screens, Stop, json_text, query_of, redirect, screen, unknown

ROWS_ON_A_PAGE = 50
EVENTS_SECONDS_MAX = 0.15
"""A page does not keep anybody waiting: what was not looked at by then is on the next one."""
ID_KINDS = (("user", "User id"), ("anonymous", "Anonymous id"))
IDS_SHOWN = 20
"""Of each kind."""
TRAITS_SHOWN = 50
"""Of the person or a group; further ones are folded."""
TRAITS_MAX = 200
"""On a page, of the person, and of all groups together; the rest is in the API."""
GROUPS_SHOWN = 20
VALUE_CHARACTERS_MAX = 500
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
    synced_by: str
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
    """A computed trait, its value cut to what a page shows, and the address that unfolds what it comes from."""

    of: PersonComputedTrait
    value: str
    why_href: str
    why: TraitExplanation | None


class IdLines(NamedTuple):
    """The ids of a kind that are shown."""

    title: str
    kind: str
    ids: Sequence[str]


class TraitLine(NamedTuple):
    """A trait, its name and value cut to what a page shows."""

    name: str
    value: str
    of: PersonTrait


class TraitLines(NamedTuple):
    """Some traits, those that are folded, and how many there are beside them: at least so many if not ``is_exact``.
    ``is_whole`` is false when something of all that is left out."""

    shown: Sequence[TraitLine]
    folded: Sequence[TraitLine]
    more: int
    is_exact: bool
    is_whole: bool


class GroupLines(NamedTuple):
    """A group and its traits."""

    of: PersonGroup
    id: str
    traits: TraitLines


class PersonPage(NamedTuple):
    """The whole page; ``person`` is None of whom profiles know nothing. ``owned`` has the ids that
    are looked through for events, ``ids_searched`` is their number where there are more."""

    asked: Identity
    person: PersonView | None
    ids: Sequence[IdLines]
    ids_more: int
    ids_searched: int
    traits: TraitLines | None
    groups: Sequence[GroupLines]
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
    data_href: str

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
    listing = person_events(reader, found, ROWS_ON_A_PAGE, after, EVENTS_SECONDS_MAX)
    view = person_view(reader.profiles, found.person, known, GROUPS_SHOWN) if reader.profiles and found.person else None
    explained = _explained(reader, asked, known, why, now_ms) if view is not None else None
    here = person_href(*_ids(asked))
    audiences = [_audience(here, each, explained) for each in view.audiences] if view else []
    out = [each for each in audiences if not each.of.member]
    moments = [_moment(event, asked.id) for event in listing.items]
    ended_ms = (moments[-1].at_ms if moments else until_ms or NEVER) if listing.after else 0
    changes = _changes(reader, found.person, known, ended_ms, NEVER if until_ms is None else until_ms)
    ids = [_id_lines(view, *each) for each in ID_KINDS] if view else []
    shown = [each for each in out if each.why] + [each for each in out if not each.why][:OUT_SHOWN]
    return PersonPage(
        asked=asked,
        person=view,
        ids=ids,
        ids_more=view.identities_total - sum(len(each.ids) for each in ids) if view else 0,
        ids_searched=len(view.identities) if view and view.identities_total > len(view.identities) else 0,
        traits=_trait_lines(view.traits, view.traits_complete, TRAITS_MAX) if view else None,
        groups=_group_lines(view.groups) if view else [],
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
        data_href=address("/api/v1/people", {f"{asked.kind}Id": asked.id}),
    )


def _id_lines(view: PersonView, kind: str, title: str) -> IdLines:
    of_kind = (each.id for each in view.identities if each.kind == kind)
    return IdLines(title, kind, list(islice(of_kind, IDS_SHOWN)))


def _group_lines(groups: Sequence[PersonGroup]) -> list[GroupLines]:
    found: list[GroupLines] = []
    left = TRAITS_MAX
    for group in groups:
        lines = _trait_lines(group.traits, group.traits_complete, left)
        left -= len(lines.shown) + len(lines.folded)
        found.append(GroupLines(group, _cut(group.group_id), lines))
    return found


def _trait_lines(traits: Sequence[PersonTrait], is_complete: bool, limit: int) -> TraitLines:
    lines = [TraitLine(_cut(each.name), _cut(bytes(each.value).decode()), each) for each in traits[:limit]]
    more = len(traits) - len(lines)
    is_cut = any(len(each.name) > VALUE_CHARACTERS_MAX or len(each.value) > VALUE_CHARACTERS_MAX for each in lines)
    return TraitLines(
        shown=lines[:TRAITS_SHOWN],
        folded=lines[TRAITS_SHOWN:],
        more=more,
        is_exact=is_complete,
        is_whole=is_complete and not more and not is_cut,
    )


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[:VALUE_CHARACTERS_MAX] + "…"


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
    value = "" if trait.value is None else _cut(json_text(trait.value))
    return ComputedLine(trait, value, f"{address(here, {'why': asks})}#trait-{trait.id}", why)


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
        name=_cut(event.name),
        summary=event.summary,
        source=event.source,
        under="" if under == asked else _cut(under),
        received_at=event.received_at,
        happened_at="" if _same_minute(event) else event.timestamp,
        synced_by="" if event.origin == "sdk" else event.origin,
        rejected=event.rejected or "",
    )


def _same_minute(event: PersonEvent) -> bool:
    return event.timestamp[:16] == event.received_at[:16]


MET_SHOWN = 20
SEARCH_SECONDS_MAX = 0.15

PageRequest = Request[Any, Any, Any]


class PersonScreens(Controller):
    """Looking only; accounts of this service are ``/settings/people``."""

    path = "/people"

    @get(needs="viewer")
    async def show_people(self, request: PageRequest, services: FromServices) -> Response[str]:
        """Look for people by the beginning of an id or trait, or list them: identified ones first, newest first."""
        query = query_of(request)
        for kind, name in (("user", "userId"), ("anonymous", "anonymousId")):
            if query.get(name):  # ids that no path can hold
                return await _show(request, services, Identity(kind, query[name]))
        id = query.get("id", "").strip()
        exact = await _identity_of(services, id) if id else None
        if exact is not None:
            return redirect(person_href(*_ids(exact)))
        text, after = (id or query.get("search", "")).strip(), query.get("after") or None
        found = await (
            find_people(services, text, ROWS_ON_A_PAGE) if text else list_people(services, ROWS_ON_A_PAGE, after)
        )
        # Nobody else has an id that begins so; or nothing is known of somebody but their events.
        if text and len(found.items) < 2:
            who = await _identity_of(services, text)
            if who is not None:
                return redirect(person_href(*_ids(who)))
        is_last = not text and found.after is None
        met = await person_log(services).read(_met_last) if is_last else None
        anonymous = [each for each in met or () if each.identity.kind == "anonymous"]
        return screen(
            request,
            "people.html",
            "people",
            asked=text,
            people=found.items,
            indexed=int(found.indexed * 100),
            searched=services.settings.people.search_traits,
            anonymous=await asyncio.to_thread(without_withheld, services, anonymous, lambda each: each.identity),
            first_href="/people" if after else "",
            after_href=address("/people", {"after": found.after}) if found.after else "",
            is_defined=_is_defined(defined(services)),
        )

    @get("/user/{id:path}", needs="viewer")
    async def show_user(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show the person of a user id."""
        return await _show(request, services, Identity("user", id_in_path(request, "/people/user/")))

    @get("/anonymous/{id:path}", needs="viewer")
    async def show_anonymous(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show the person of an anonymous id."""
        return await _show(request, services, Identity("anonymous", id_in_path(request, "/people/anonymous/")))


async def _show(request: PageRequest, services: Services, asked: Identity) -> Response[str]:
    query = query_of(request)
    known, now_ms = defined(services), services.store.steady_ms()
    view = await person_log(services).read(
        lambda reader: person_page(
            reader,
            asked,
            known,
            after=query.get("after"),
            until_ms=id_number(query.get("until", "")),
            why=query.get("why", ""),
            now_ms=now_ms,
        )
    )
    is_known = view.person is not None or bool(view.moments) or "after" in query
    hidden = await asyncio.to_thread(withheld, services, asked, view.owned, is_known)
    if hidden is not None:
        return screen(request, "person_withheld.html", "people", asked=asked, hidden=hidden)
    if not is_known:
        hint = "No stored event has this id. Ids are case-sensitive."
        return unknown(request, "people", "Person", "No person has this id", asked.id, hint)
    return screen(
        request,
        "person.html",
        "people",
        view=view,
        is_defined=_is_defined(known),
        actions=ACTIONS,
    )


async def _identity_of(services: Services, id: str) -> Identity | None:
    """Whose id it is: a user's before a device's; None when it is nobody's."""
    if await asyncio.to_thread(withheld, services, Identity("anonymous", id), None, False) is not None:
        return Identity("user", id)
    return await person_log(services).read(lambda reader: _looked_up(reader, id))


def _looked_up(reader: PersonReader, id: str) -> Identity | None:
    either = [Identity("user", id), Identity("anonymous", id)]
    known = [(asked, reader.find(asked)) for asked in either]
    for asked, found in known:
        if found.person is not None:
            return asked
    for asked, found in known:
        if reader.timeline.page(found.owned, 1, SEARCH_SECONDS_MAX).found:
            return asked
    return None


def _is_defined(known: Defined) -> bool:
    """Return whether there is anything that people are kept for."""
    return bool(known.audiences or known.traits)


def _met_last(reader: PersonReader) -> list[ListedPerson] | None:
    return None if reader.profiles is None else reader.profiles.people.met_last(MET_SHOWN)


class PersonLink(NamedTuple):
    """The user id, or else the anonymous id, and the page of that person; both empty for an event of nobody."""

    id: str
    href: str


class _Ids(msgspec.Struct):
    userId: msgspec.Raw = msgspec.Raw(b"null")
    anonymousId: msgspec.Raw = msgspec.Raw(b"null")


_ids_in = msgspec.json.Decoder(_Ids).decode


def person_link(event: EventStatus) -> PersonLink:
    """Return the person of an event."""
    return PersonLink(event.user_id, person_href(event.user_id)) if event.user_id else person_in(event.event)


def person_in(body: bytes | msgspec.Raw) -> PersonLink:
    """Return the person of an event's JSON."""
    try:
        ids = _ids_in(body)
        user, anonymous = text(scalar(ids.userId)), text(scalar(ids.anonymousId))
    except (msgspec.MsgspecError, RecursionError):
        return PersonLink("", "")
    return PersonLink(user or anonymous, person_href(user or None, anonymous) if user or anonymous else "")


SCREENS = Screens(
    (PersonScreens,),
    (Stop("people", "People", "/people", "p", "M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21a8 8 0 0 1 16 0"),),
    docs={"people": "explanation/people"},
)
