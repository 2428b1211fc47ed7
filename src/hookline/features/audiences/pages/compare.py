"""Compare two audiences: who is in both, and who only in one, as their last syncs left them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.definitions.model import Audience
from hookline.features.audiences.pages.progress import AUDIENCE
from hookline.features.audiences.service import overlap_of
from hookline.features.people.service import ProfileReader, profile_log
from hookline.features.people.view import either, without_withheld
from hookline.web.lists import person_href

SHOWN = 5


class ComparedPerson(NamedTuple):
    """Somebody of a part, with their page."""

    name: str
    href: str


class ComparedPart(NamedTuple):
    """One of the three parts, with its share of everybody who is in either."""

    title: str
    total: int
    percent: float
    people: Sequence[ComparedPerson]


class ComparisonPage(NamedTuple):
    """``choices`` are the audiences there are; ``parts`` is empty until two different ones are chosen. ``waiting`` are
    those that have had no sync yet, whose members are not known."""

    choices: Sequence[tuple[str, str]]
    a: str
    b: str
    names: tuple[str, str]
    sizes: tuple[int, int]
    parts: Sequence[ComparedPart]
    waiting: Sequence[str]


async def comparison_page(services: Services, a: str, b: str) -> ComparisonPage:
    """Count two audiences against each other; ids that nothing has are not chosen."""
    audiences: list[Audience] = [stored.object for stored in services.store.in_force("audience")]
    names = {each.id: each.name for each in sorted(audiences, key=lambda each: (each.name.casefold(), each.id))}
    a, b = (id if id in names else "" for id in (a, b))
    choices = list(names.items())
    if not a or not b or a == b:
        return ComparisonPage(choices, a, b, ("", ""), (0, 0), (), ())
    profiles = profile_log(services)
    states = await profiles.read(lambda reader: [reader.sync_states.of(AUDIENCE.key(id)) for id in (a, b)])
    known = states or [None, None]
    waiting = [names[id] for id, state in zip((a, b), known, strict=True) if state is None or not state.number]
    overlap = await overlap_of(profiles, a, b, SHOWN)
    sample = await profiles.read(
        lambda reader: [
            _people(services, reader, part.sample) for part in (overlap.only_a, overlap.both, overlap.only_b)
        ]
    ) or [[], [], []]
    counts = (overlap.only_a.people, overlap.both.people, overlap.only_b.people)
    every = sum(counts) or 1
    titles = (f"Only in {names[a]}", "In both", f"Only in {names[b]}")
    return ComparisonPage(
        choices=choices,
        a=a,
        b=b,
        names=(names[a], names[b]),
        sizes=(counts[0] + counts[1], counts[1] + counts[2]),
        parts=[
            ComparedPart(title, count, 100 * count / every, people)
            for title, count, people in zip(titles, counts, sample, strict=True)
        ],
        waiting=waiting,
    )


def _people(services: Services, reader: ProfileReader, numbers: Sequence[int]) -> list[ComparedPerson]:
    found = [reader.people.person(number) for number in numbers]
    ids = [(each.user_id, each.anonymous_id() if each.user_id is None else None) for each in found]
    shown = without_withheld(services, ids, lambda each: either(*each))
    return [ComparedPerson(user or anonymous or "", person_href(user, anonymous)) for user, anonymous in shown]
