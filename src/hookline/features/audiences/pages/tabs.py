"""The tabs of an audience's or computed trait's page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.api.listing import id_number
from hookline.api.services import Services
from hookline.connections.definitions.check import kind_of, references_of
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, Definition, conditions_of
from hookline.events import untyped
from hookline.events.timestamps import iso
from hookline.features.audiences.pages.progress import AUDIENCE, TRAIT, SyncRow, section_of, sync_row
from hookline.features.audiences.service import (
    Explanation,
    TraitExplanation,
    explanation_of,
    trait_explanation_of,
)
from hookline.features.people.service import ProfileReader, profile_log
from hookline.features.people.view import Withheld, withheld_person, without_withheld
from hookline.people.definitions.reason import clause_text, trait_text
from hookline.people.store.people import Identity
from hookline.people.sync.results import EndedSync, Held, empty_value
from hookline.web.chart_view import ChartView, Line, chart
from hookline.web.lists import Label, address, destination_label, person_href
from hookline.web.rendering import NUMBER_SPACE, json_text


class SentenceStep(NamedTuple):
    """One step: how it begins, what it says, the audience it names with its page, and the steps within it."""

    begins: str
    text: str
    audience: str
    href: str
    terms: Sequence[SentenceStep]


def sentence_of(definition: Definition) -> SentenceStep:
    """Return what a definition says, to follow “A person” or “For each person,”."""
    if isinstance(definition, Audience):
        return _said(definition.condition)
    return SentenceStep("", trait_text(definition), "", "", ())


def _said(condition: Condition) -> SentenceStep:
    terms = [*(condition.all or ()), *(condition.any or ()), *([] if condition.not_ is None else [condition.not_])]
    if terms:
        return SentenceStep("for whom", clause_text(condition), "", "", [_said(each) for each in terms])
    if condition.audience is not None:
        return SentenceStep("who", "is a member of", condition.audience, AUDIENCE.href(condition.audience), ())
    return SentenceStep("with" if condition.if_ is not None else "who", clause_text(condition), "", "", ())


ASKED_BY_SHOWN = 20


class Named(NamedTuple):
    """An audience or computed trait that stands in relation to this one."""

    name: str
    href: str


class Written(NamedTuple):
    """The definition as text."""

    id: str
    title: str
    text: str
    install: str = ""


class OverviewTab(NamedTuple):
    """``written`` is the definition as in ``connections.yaml`` and as the API has it; ``asks`` is what it looks at,
    ``asked_by`` what looks at it, the first of them."""

    said: SentenceStep
    written: Sequence[Written]
    synced_to: Sequence[Label]
    asks: Sequence[Named]
    asked_by: Sequence[Named]
    asked_by_more: int
    syncs: SyncsTab


async def overview_tab(services: Services, definition: Definition) -> OverviewTab:
    """Everything but what the head says."""
    asked_by = _asked_by(services, definition)
    from hookline.connections.file import definition_text  # here: YAML is wanted rarely

    return OverviewTab(
        said=sentence_of(definition),
        written=[
            Written("yaml", "connections.yaml", definition_text(definition)),
            Written("json", "API", msgspec.json.format(msgspec.json.encode(definition), indent=2).decode()),
        ],
        synced_to=[destination_label(services.store, id) for id in definition.destinations],
        asks=_asks(services, definition),
        asked_by=asked_by[:ASKED_BY_SHOWN],
        asked_by_more=max(0, len(asked_by) - ASKED_BY_SHOWN),
        syncs=await syncs_tab(services, definition, ""),
    )


def _asks(services: Services, definition: Definition) -> list[Named]:
    found = []
    for kind, id in dict.fromkeys((each.kind, each.id) for each in references_of(definition)):
        stored = services.store.stored(kind, id)
        section = AUDIENCE if kind == AUDIENCE.kind else TRAIT
        found.append(Named(id if stored is None else stored.object.name, section.href(id)))
    return found


def _asked_by(services: Services, definition: Definition) -> list[Named]:
    this = (kind_of(definition), definition.id)
    audiences: list[Audience] = [stored.object for stored in services.store.in_force(AUDIENCE.kind)]
    return [
        Named(each.name, section_of(each).href(each.id))
        for each in audiences
        if _mentions(each, definition.id) and any((found.kind, found.id) == this for found in references_of(each))
    ]


def _mentions(audience: Audience, id: str) -> bool:
    """Return whether it may look at the id: parsing the expressions of a thousand audiences would take too long."""
    return any(
        condition.audience == id or (condition.if_ is not None and id in condition.if_.replace("\\", ""))
        for _, condition in conditions_of(audience)
    )


ROWS = 50


class PersonRow(NamedTuple):
    """One person with the value as text; ``until`` is empty when nothing ends by itself."""

    name: str
    is_anonymous: bool
    href: str
    why: str
    value: str
    since: str
    until: str
    synced: bool


class PeopleTab(NamedTuple):
    """One page of the list, in the order in which people were first seen; ``hidden`` more are suppressed or being
    erased."""

    rows: Sequence[PersonRow]
    hidden: int
    first: str
    after: str


async def people_tab(services: Services, definition: Definition, after: str) -> PeopleTab:
    """Return the page after the number of a person."""
    section = section_of(definition)
    above = id_number(after) or 0
    rows = await profile_log(services).read(lambda reader: _rows(reader, definition, above)) or []
    page = [row for _, row in rows[:ROWS]]
    shown = await asyncio.to_thread(without_withheld, services, page, _identity)
    path = section.href(definition.id, section.people)
    return PeopleTab(
        rows=shown,
        hidden=len(page) - len(shown),
        first=path if above else "",
        after=address(path, {}, after=rows[ROWS - 1][0]) if len(rows) > ROWS else "",
    )


def _identity(row: PersonRow) -> Identity:
    return Identity("anonymous" if row.is_anonymous else "user", row.name)


def _rows(reader: ProfileReader, definition: Definition, above: int) -> list[tuple[int, PersonRow]]:
    key = section_of(definition).key(definition.id)
    found = reader.sync_states.held(key, empty_value(definition), ROWS + 1, above)
    return [(each.person, _row(reader, definition, each)) for each in found]


def _row(reader: ProfileReader, definition: Definition, held: Held) -> PersonRow:
    anonymous = None if held.user_id is not None else reader.people.person(held.person).anonymous_id()
    name = held.user_id or anonymous or ""
    return PersonRow(
        name=name,
        is_anonymous=held.user_id is None,
        href=person_href(held.user_id, anonymous),
        why=address(section_of(definition).href(definition.id, "why"), {"user": name}),
        value=value_text(untyped.decode(held.value)),
        since=iso(held.since_ms),
        until="" if held.until_ms is None else iso(held.until_ms),
        synced=held.synced,
    )


GROUPED_FROM = 10_000


def value_text(value: object) -> str:
    """Return a value for people: numbers with the digits that mean something, everything else as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json_text(value)
    text = f"{value:,.15g}" if isinstance(value, float) else f"{value:,}"
    return text.replace(",", NUMBER_SPACE if abs(value) >= GROUPED_FROM else "")


SYNC_ROWS = 50
CHART_FROM = 5
"""Fewer syncs are seen at a glance in the table."""
SIZES_FROM = 2
CHART_SYNCS = 1_000
"""All that are kept: at a sync every two hours, twelve weeks."""


class SyncsTab(NamedTuple):
    """One page of the list; ``sizes`` and ``chart`` show the newest, whatever the page: how many people there were
    after each sync, and how many each one changed."""

    rows: Sequence[SyncRow]
    sizes: ChartView | None
    chart: ChartView | None
    first: str
    after: str


async def syncs_tab(services: Services, definition: Definition, after: str) -> SyncsTab:
    """Return the page of the list after a sync's number."""
    section = section_of(definition)
    key, before = section.key(definition.id), id_number(after)
    found = await profile_log(services).read(
        lambda reader: (reader.results.syncs(key, CHART_SYNCS), reader.results.syncs(key, SYNC_ROWS + 1, before))
    )
    newest, page = found or ([], [])
    path = section.href(definition.id, "syncs")
    return SyncsTab(
        rows=[sync_row(each) for each in page[:SYNC_ROWS]],
        sizes=_sizes(definition, newest),
        chart=_chart(definition, newest) if len(newest) >= CHART_FROM else None,
        first=path if before is not None else "",
        after=address(path, {}, after=page[SYNC_ROWS - 1].number) if len(page) > SYNC_ROWS else "",
    )


def _sizes(definition: Definition, newest: Sequence[EndedSync]) -> ChartView | None:
    """Return the size over time, once there are two points of it."""
    known = [(each.at_ms / 1000, float(each.people)) for each in newest[::-1] if each.people is not None]
    if len(known) < SIZES_FROM:
        return None
    word = "members" if section_of(definition).kind == "audience" else "people with a value"
    line = (Line(word, "accent"), [people for _, people in known])
    return chart("sizes", f"{word.capitalize()} after each sync", "", [at for at, _ in known], [line], max)


def _chart(definition: Definition, newest: Sequence[EndedSync]) -> ChartView:
    syncs = newest[::-1]
    times = [each.at_ms / 1000 for each in syncs]
    came, went = change_words(definition)
    lines = [
        (Line(came, "good"), [float(each.came) for each in syncs]),
        (Line(went, "off"), [float(each.went) for each in syncs]),
    ]
    return chart("syncs", "People changed per sync", "", times, lines, sum)


def change_words(definition: Definition) -> tuple[str, str]:
    """Return what it means that a value came, and that it went."""
    return ("joined", "left") if section_of(definition).kind == "audience" else ("changed", "lost the value")


CHANGES_SHOWN_MAX = 50


class ChangeRow(NamedTuple):
    """The person became a member, or ceased to be one; ``sync`` is None where that came before it was written down."""

    at: str
    member: bool
    sync: int | None


class WhyTab(NamedTuple):
    """``user`` is who was asked about, empty for nobody yet; both explanations are None for somebody unknown, and for
    somebody ``hidden``. ``history`` is the membership of an audience, newest first."""

    user: str
    hidden: Withheld | None
    person: str
    audience: Explanation | None
    trait: TraitExplanation | None
    value: str
    history: Sequence[ChangeRow]


async def why_tab(services: Services, definition: Definition, user: str) -> WhyTab:
    """Explain a definition for a user id, or else an anonymous id."""
    found: Explanation | TraitExplanation | None = None
    is_asked, either = bool(user.strip()), (Identity("user", user), Identity("anonymous", user))
    hidden = await withheld_person(services, *either) if is_asked else None
    if is_asked and hidden is None:
        traits = {each.object.id: each.object for each in services.store.in_force("computedTrait")}
        now_ms = services.store.steady_ms()
        found = await profile_log(services).read(lambda reader: _explained(reader, definition, traits, user, now_ms))
    history: list[ChangeRow] = []
    if isinstance(found, Explanation):
        history = await profile_log(services).read(lambda reader: _history(reader, definition.id, user)) or []
    is_user = found is not None and found.user_id is not None
    return WhyTab(
        user=user,
        hidden=hidden,
        person="" if found is None else person_href(found.user_id if is_user else None, user),
        audience=found if isinstance(found, Explanation) else None,
        trait=found if isinstance(found, TraitExplanation) else None,
        value=value_text(found.value) if isinstance(found, TraitExplanation) else "",
        history=history,
    )


def _explained(
    reader: ProfileReader, definition: Definition, traits: dict[str, ComputedTrait], id: str, now_ms: int
) -> Explanation | TraitExplanation | None:
    ids: Sequence[tuple[str | None, str | None]] = ((id, None), (None, id))
    for user_id, anonymous_id in ids:
        found: Any
        if isinstance(definition, Audience):
            found = explanation_of(reader, definition, traits, user_id, anonymous_id, now_ms)
        else:
            found = trait_explanation_of(reader, definition, user_id, anonymous_id, now_ms)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _history(reader: ProfileReader, audience: str, id: str) -> list[ChangeRow]:
    person = reader.people.by_user_id(id) or reader.people.by_anonymous_id(id)
    changes = [] if person is None else reader.membership_changes(person, audience)
    return [ChangeRow(iso(each.at_ms), each.member, each.sync) for each in changes[:CHANGES_SHOWN_MAX]]
