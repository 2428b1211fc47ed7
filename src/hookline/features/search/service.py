"""Gather what a text finds, in groups of a few: exact ids first, then what begins so, then words, then parts.

An action leads to the page, or opens the dialog, where it is confirmed; nothing is done by finding it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from hookline.api.caller import Caller, Need
from hookline.api.services import Services, deliver_reader, part
from hookline.connections.state import Object
from hookline.features.events.service import event_log
from hookline.features.issues.service import issue_store
from hookline.features.people.finding import PersonSummary, find_people
from hookline.features.privacy.service import deletion_requests
from hookline.features.replays.service import replay_store
from hookline.features.sources.service import schema_log
from hookline.people.store.search import normal
from hookline.replays.model import lane_of

RESULTS_PER_GROUP = 5
PEOPLE_SHOWN = 6
EVENT_ID_CHARACTERS_MIN = 6
"""Of a message id: a shorter text is hardly one, and looking for it takes the longest."""


class Place(NamedTuple):
    """A page, or an action on one; ``words`` are other names for it."""

    title: str
    href: str
    need: Need = "viewer"
    words: str = ""


GO_TO = (
    Place("Overview", "/", words="home start dashboard"),
    Place("Events", "/events", words="debugger live log messages"),
    Place("Sources", "/sources", words="write keys"),
    Place("Destinations", "/destinations", words="webhooks endpoints receivers"),
    Place("Issues", "/issues", words="errors failures failed"),
    Place("Audiences", "/audiences", words="segments"),
    Place("Traits", "/traits", words="computed"),
    Place("People", "/people", words="users profiles persons"),
    Place("Deletion", "/deletion-requests", words="privacy gdpr erase suppress"),
    Place("Usage", "/usage", words="billing volume tracked users"),
    Place("Replays", "/replays", words="send again"),
    Place("Notices", "/notices", words="alerts warnings"),
    Place("Destination catalog", "/catalog", words="kinds integrations"),
    Place("Settings: Your account", "/settings/account", words="password profile sign in"),
    Place("Settings: Notifications", "/settings/notifications", words="alerts slack e-mail email"),
    Place("Settings: Accounts", "/settings/people", "owner", "people members team invite"),
    Place("Settings: Tokens", "/settings/tokens", "owner", "api keys access"),
    Place("Settings: Versions", "/settings/versions", words="history roll back configuration"),
    Place("Settings: Audit log", "/settings/audit-log", "owner", "who changed"),
    Place("Settings: Server", "/settings/server", "owner", "configuration environment"),
    Place("Documentation", "/docs", words="help manual guide"),
)
ACTIONS = (
    Place("New source…", "/sources#new-source", "editor", "create add source"),
    Place("New destination…", "/destinations/new", "editor", "create add webhook destination"),
    Place("New audience…", "/audiences/new", "editor", "create add audience"),
    Place("New computed trait…", "/traits/new", "editor", "create add trait"),
    Place("New notification…", "/settings/notifications/new", "editor", "create add alert"),
    Place("Delete or suppress a person’s data…", "/deletion-requests#new-deletion", "editor", "erase forget gdpr"),
    Place("Invite someone…", "/settings/people#invite", "owner", "add account user"),
    Place("New token…", "/settings/tokens#new-token", "owner", "create add api token"),
    Place("Change theme", "#theme", words="dark light mode colour color"),
)


class FoundItem(msgspec.Struct, frozen=True):
    """One result: its title, a detail that tells it from others, and its page."""

    title: str
    detail: str
    href: str


class FoundGroup(msgspec.Struct, frozen=True):
    """Results of one kind."""

    kind: str
    title: str
    items: list[FoundItem]


class SearchResults(msgspec.Struct, frozen=True, rename="camel"):
    """The groups with results. ``peopleIndexed`` is the share of people whose traits can be searched; it is below 1
    only while the index is built."""

    groups: list[FoundGroup]
    people_indexed: float


async def search(services: Services, caller: Caller, text: str) -> SearchResults:
    """Return what a text finds that the caller may see; an empty one nothing, but the next is answered sooner."""
    wanted = normal(text)
    if not wanted:
        await asyncio.to_thread(doc_headings)
        return SearchResults([], 1.0)
    asked = text.strip()
    people, event, in_memory = await asyncio.gather(
        find_people(services, asked, PEOPLE_SHOWN),
        _event(services, asked),
        asyncio.to_thread(lambda: list(_groups(services, caller, wanted))),
    )
    exact = [*([event] if event else []), *_by_id(services, asked)]
    person = _Ranked(PREFIX, FoundGroup("person", "People", [_person(each) for each in people.items]))
    ranked = sorted([person, *in_memory], key=lambda each: each.rank)  # of the same rank in the order given
    groups = [FoundGroup("id", "By id", exact), *(each.group for each in ranked)]
    return SearchResults([each for each in groups if each.items], people.indexed)


async def _event(services: Services, asked: str) -> FoundItem | None:
    """Return the event with this message id: exact, for events are kept by the hash of it."""
    if len(asked) < EVENT_ID_CHARACTERS_MIN or " " in asked:
        return None
    found = await event_log(services).find(asked, None)
    if found is None:
        return None
    from hookline.web.lists import event_href, source_label  # here: the API is served without the pages

    source = source_label(services.store, found.record.source).name
    return FoundItem(asked, f"{found.record.type}, {source}", event_href(asked, found.record.source))


EXACT, PREFIX, WORDS, PART = range(4)
NOTHING = 9


class _Ranked(NamedTuple):
    """A group, and how well its best result matches."""

    rank: int
    group: FoundGroup


def _groups(services: Services, caller: Caller, wanted: str) -> Iterator[_Ranked]:
    """Yield what is found by its name."""
    store = services.store
    destinations = store.destinations()
    yield _group("page", "Go to", wanted, _places(caller, GO_TO))
    yield _group("destination", "Destinations", wanted, [_named(each.object, "/destinations") for each in destinations])
    yield _group("source", "Sources", wanted, [_named(each.object, "/sources") for each in store.sources()])
    audiences, traits = store.in_force("audience"), store.in_force("computedTrait")
    yield _group("audience", "Audiences", wanted, [_named(each.object, "/audiences") for each in audiences])
    yield _group("computedTrait", "Computed traits", wanted, [_named(each.object, "/traits") for each in traits])
    yield _group("eventName", "Event names", wanted, _named_events(services, wanted))
    may_act = caller.may("editor")
    of_destinations = (_actions(each.object.id, each.object.name) for each in destinations if may_act)
    actions = [*_places(caller, ACTIONS), *(each for found in of_destinations for each in found)]
    yield _group("action", "Actions", wanted, actions)
    yield _group("doc", "Documentation", wanted, [_candidate(*each) for each in doc_headings()])


class _Candidate(NamedTuple):
    """Something that may be found by its title, its id, or other words, all of them in the form that is compared."""

    item: FoundItem
    title: str
    id: str
    words: str


@lru_cache(maxsize=16_384)  # the same come with each letter that somebody types
def _candidate(title: str, detail: str, href: str, id: str = "", words: str = "") -> _Candidate:
    normal_title, normal_id = normal(title), normal(id)
    text = f"{normal_title} {words} {normal_id}".replace(":", " ")
    return _Candidate(FoundItem(title, detail, href), normal_title, normal_id, text)


def _group(kind: str, title: str, wanted: str, candidates: Iterable[_Candidate]) -> _Ranked:
    parts = _parts(wanted)
    possible = (each for each in candidates if all(part in each.words for part in parts))  # nearly all drop out here
    ranked = [(rank, each) for each in possible if (rank := _rank(each, wanted)) is not None]
    ranked.sort(key=lambda pair: (pair[0], len(pair[1].title)))
    items = [each.item for _, each in ranked[:RESULTS_PER_GROUP]]
    return _Ranked(ranked[0][0] if ranked else NOTHING, FoundGroup(kind, title, items))


def _parts(text: str) -> list[str]:
    return text.replace(":", " ").split()


def _rank(candidate: _Candidate, wanted: str) -> int | None:
    """Return how well a candidate matches, None where it does not."""
    texts = (candidate.title, candidate.id)
    if wanted in texts:
        return EXACT
    if any(text.startswith(wanted) for text in texts):
        return PREFIX
    words = candidate.words.split()
    if all(any(word.startswith(each) for word in words) for each in wanted.split()):
        return WORDS
    return PART if len(wanted) > 1 and any(wanted in text for text in texts) else None


def _places(caller: Caller, places: Iterable[Place]) -> list[_Candidate]:
    return [_candidate(each.title, "", each.href, words=each.words) for each in places if caller.may(each.need)]


def _named(each: Object, path: str) -> _Candidate:
    return _candidate(each.name, each.id, f"{path}/{quote(each.id, safe='')}", each.id)


@lru_cache(maxsize=4_096)
def _actions(id: str, name: str) -> list[_Candidate]:
    """Return what can be done with a destination."""
    from hookline.web.lists import destination_href  # here: the API is served without the pages

    href = destination_href(id)
    return [
        _candidate(f"Pause {name}…", id, f"{href}#pause", words="stop hold"),
        _candidate(f"Resume {name}…", id, f"{href}#resume", words="continue unpause"),
        _candidate(f"Retry dead letters of {name}…", id, f"{href}/dead-letters#retry-all", words="again failed"),
        _candidate(f"Replay to {name}…", id, f"{href}/replay", words="send again backfill"),
        _candidate(f"Send a test event to {name}…", id, f"{href}/tester", words="try tester"),
    ]


GOOD_PER_SECOND_READ = 100
"""So many times as long as it took to read the names, they are not read again: the same come with each letter that
somebody types, and a thousand sources may have a thousand names each."""


class _EventName(NamedTuple):
    source: str
    type: str
    name: str
    words: str


class EventNames:
    """Holds the names of events in the form that is compared; may be asked from any thread."""

    def __init__(
        self, read: Callable[[], Iterable[tuple[str, str, str]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Sequence[_EventName] = ()
        self._good_until = clock()

    def holding(self, parts: Sequence[str]) -> list[_EventName]:
        """Return those in which all of these occur, the latest first."""
        with self._lock:
            began = self._clock()
            if began >= self._good_until:
                self._known = [_EventName(*each, normal(each[2]).replace(":", " ")) for each in self._read()]
                ended = self._clock()
                self._good_until = ended + GOOD_PER_SECOND_READ * (ended - began)
            known = self._known
        return [each for each in known if all(part in each.words for part in parts)]


@part
def event_names(services: Services) -> EventNames:
    """Return what knows the names of events."""
    return EventNames(schema_log(services).every_name)


def _named_events(services: Services, wanted: str) -> list[_Candidate]:
    from hookline.web.lists import address  # here: the API is served without the pages

    names = {stored.object.id: stored.object.name for stored in services.store.sources()}
    return [
        _candidate(name, f"{type}, {names.get(source, source)}", address("/events", {"event": name, "source": source}))
        for source, type, name, _ in event_names(services).holding(_parts(wanted))
    ]


def _by_id(services: Services, asked: str) -> Iterator[FoundItem]:
    lane = lane_of(asked)
    if lane is not None and (replay := replay_store(services).get(lane)) is not None:
        yield FoundItem(asked, f"replay to {replay.request.destination}", f"/replays/{asked}")
    number = asked[2:] if asked.startswith("dr") else ""
    if _is_number(number) and deletion_requests(services).get(int(number)) is not None:
        yield FoundItem(asked, "deletion request", f"/deletion-requests/{asked}")
    if _is_number(asked) and (letter := deliver_reader(services).dead_letters.get(int(asked))) is not None:
        yield FoundItem(asked, f"dead letter of {letter.destination}", f"/dead-letters/{asked}")
    if len(asked) == 16 and (issue := issue_store(services).get(asked)) is not None:
        yield FoundItem(asked, f"issue at {issue.destination}", f"/issues/{asked}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _person(each: PersonSummary) -> FoundItem:
    from hookline.web.lists import person_href  # here: the API is served without the pages

    id = each.user_id or each.anonymous_id or ""
    title = each.name or each.email or id
    known = [each.email, id, "anonymous" if each.user_id is None else None]
    if each.matched is not None and each.matched.value not in (title, each.email):
        known.append(f"{each.matched.name}: {each.matched.value}")
    detail = " · ".join(text for text in known if text and text != title)
    return FoundItem(title, detail, person_href(each.user_id, each.anonymous_id))


@cache
def doc_headings() -> list[tuple[str, str, str]]:
    """Return title, page and address of each page of the documentation and of its headings."""
    from hookline.web.docs import PAGES as DOCS  # here: the API is served without the pages
    from hookline.web.docs import blocks_of_page

    found = []
    for doc in DOCS:
        found.append((doc.title, doc.group, doc.href))
        for block in blocks_of_page(doc):
            if block.kind == "heading" and block.number == 2:
                title = "".join(piece.text for piece in block.entries[0])
                found.append((title, doc.title, f"{doc.href}#{block.anchor}"))
    return found
