"""Syncs of a few people at a time, against looking at everybody anew: what receivers were told is what holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.database.location import DatabaseLocation
from hookline.journal.record import Record
from hookline.people.definitions.definition import as_json, in_order
from hookline.people.definitions.feature import windows_of
from hookline.people.ingest.ingest import Ingest
from hookline.people.store import history
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.people import People, Person, PersonFacts, changes_of
from hookline.people.store.store import ProfileStore
from hookline.people.sync import sync
from hookline.people.sync.sync import Sync
from tests.postgres import PostgresServer
from tests.unit.conftest import new_places
from tests.unit.people.conftest import examples
from tests.unit.people.memory_journal import NOW_MS, MemoryJournal, record

TRAITS = msgspec.convert(
    [{"id": "spend", "name": "Spend", "event": "Order", "aggregate": "sum", "property": "properties.total",
      "within": "4s", "syncEvery": 1, "destinations": ["crm"]}],
    list[ComputedTrait],
)  # fmt: skip
CONDITIONS: dict[str, Any] = {
    "rich": {"all": [{"if": "computed.spend >= 9"}, {"audience": "buyers"}]},
    "buyers": {"event": "Order", "count": {"gte": 2}, "within": "3s"},
    "pros": {"if": 'traits.plan = "x"'},
    "teams": {"if": 'groupTraits.plan = "x"'},
    "idle": {"event": "Order", "never": True},
    "cooling": {"event": "Order", "last": {"within": "2s"}},
}
AUDIENCES = msgspec.convert(
    [
        {"id": id, "name": id, "syncEvery": 1, "destinations": ["crm"], "condition": condition}
        for id, condition in CONDITIONS.items()
    ],
    list[Audience],
)
READY = in_order(AUDIENCES, TRAITS)

users = st.sampled_from(["u", "v", "w"])
who = st.one_of(
    st.builds(dict, userId=users),
    st.builds(dict, anonymousId=st.sampled_from(["a", "b"])),
    st.builds(dict, userId=users, anonymousId=st.sampled_from(["a", "b"])),
)
plans = st.sampled_from([{"plan": "x"}, {"plan": "y"}, {"plan": None}])
orders = st.builds(lambda total: {"event": "Order", "properties": {"total": total}}, st.integers(1, 9))
calls = st.one_of(
    st.tuples(st.just("track"), orders),
    st.tuples(st.just("identify"), st.builds(dict, traits=plans)),
    st.tuples(st.just("group"), st.builds(dict, groupId=st.sampled_from("gh"), traits=plans)),
    st.tuples(st.just("page"), st.just({"name": "Home"})),
)
events = st.builds(
    lambda call, who, number, seconds: (call, who, number, seconds), calls, who, st.integers(0, 30), st.integers(-1, 5)
)
aliases = st.builds(lambda user, previous: (user, previous), users, st.sampled_from(["u", "v", "a", "b"]))
moves = st.one_of(
    st.lists(events, min_size=1, max_size=3),
    st.sampled_from(
        ["sync", "sync", "step", "fail", "lose the answer", "tell", "crash", "restart", "ingest", "make again"]
    ),
    st.just("follow"),
    st.tuples(st.just("wait"), st.integers(1, 4)),
    st.tuples(st.just("aim"), st.lists(st.sampled_from(["crm", "mail", "shop"]), unique=True).map(tuple)),
    aliases,
)


class Profiles:
    """The real parts, a clock, and what a receiver that drops repeats has been told."""

    def __init__(self, location: DatabaseLocation) -> None:
        self.position, self.journal, self.now_ms = location, MemoryJournal(), NOW_MS
        self.seen: set[str] = set()
        self.synced: dict[tuple[str, str], str] = {}
        self.known: dict[str, dict[tuple[str, str], str]] = {"crm": self.synced}
        """What each destination was told, ``told`` among it."""
        self.ready = READY
        self.made = dict.fromkeys((ready.key for ready in READY), 1)
        self.open()

    def open(self) -> None:
        """Start as a process does."""
        self.store = ProfileStore(self.position)
        registry = FeatureCatalog(self.store)
        registry.keep(windows_of([*TRAITS, *AUDIENCES]), {})
        self.ingest = Ingest(self.journal, self.store, batch_records=3)
        self.ingest.keep(registry.features())
        self.sync = Sync(self.store)
        self.sync.follow(self.ready, self.made)

    def aim(self, to: tuple[str, ...]) -> None:
        """Tell other destinations from now on; one that was taken out forgets everything."""
        for gone in self.known.keys() - set(to):
            self.known[gone].clear()
        self.known = {each: self.known.get(each, {}) for each in to}
        definitions = [msgspec.structs.replace(each, destinations=to) for each in AUDIENCES]
        self.ready = in_order(definitions, [msgspec.structs.replace(each, destinations=to) for each in TRAITS])
        self.sync.follow(self.ready, self.made)

    def make_again(self) -> None:
        """Delete all definitions and make them again, which the destinations hear as if for the first time."""
        self.sync.follow([], {})
        for known in self.known.values():
            known.clear()
        self.made = {key: version + 1 for key, version in self.made.items()}
        self.sync.follow(self.ready, self.made)

    def fail(self, is_written: bool) -> None:
        """A look at some people that is refused, or is written and nobody heard that it was."""
        transaction = self.store.transaction

        @contextmanager
        def lost() -> Iterator[Callable[..., Any]]:
            with transaction() as execute:
                yield execute
                if not is_written:
                    raise OSError("no space left")
            raise OSError("the server went")

        self.store.transaction = lost  # type: ignore[method-assign]
        with suppress(OSError):
            self.sync.evaluate(self.now_ms)
        self.store.transaction = transaction  # type: ignore[method-assign]

    def restart(self) -> None:
        """Begin again from what is on the disk."""
        self.store.connection.close()
        self.open()

    def tell(self, then_crash: bool = False) -> bool:
        """Bring messages to the receiver; a crash comes before anything of ours knows it."""
        found = self.sync.to_send(self.now_ms)
        if found is None:
            return False
        sending, messages = found
        for _, each in messages:
            self._receive(each)
        if then_crash:
            self.restart()
        else:
            self.sync.sent(sending, [person for person, _ in messages], self.now_ms)
        return True

    def sync_all(self) -> None:
        """Let a second pass, apply everything, and sync everything."""
        while self.sync.evaluate(self.now_ms) or self.tell():
            pass
        self.now_ms += 1_000
        while self.ingest.step():
            pass
        while self.sync.evaluate(self.now_ms) or self.tell():
            pass

    def _receive(self, message: Record) -> None:
        if message.message_id in self.seen:
            return
        self.seen.add(message.message_id)
        body = msgspec.json.decode(message.body)
        ((trait, value),) = body["traits"].items()
        key = trait, body["userId"]
        assert message.to
        for destination in message.to:
            told = self.known[destination]
            assert told.get(key) != as_json(value), "told twice"
            told[key] = as_json(value)


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    """Two people and one message at a time, of history in small chunks with rows of some persons."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "CHUNK_ENTRIES", 3)
        patch.setattr(history, "ROWS_PER_CHUNK", 4)
        patch.setattr(sync, "PEOPLE_PER_STEP", 2)
        patch.setattr(sync, "MESSAGES_PER_STEP", 1)
        yield


def test_receivers_know_what_holds(backend: PostgresServer | None) -> None:
    """After every sync each user is what a look at everything says, and was told so exactly once."""

    @settings(max_examples=examples(backend, 60), deadline=None)
    @given(st.lists(moves, max_size=30))
    def run(moves: list[Any]) -> None:
        with new_places(backend) as positions:
            profiles = Profiles(positions("profiles"))
            for number, move in enumerate([*moves, "sync"]):
                _make(profiles, number, move)
            profiles.store.close()

    run()


def _make(profiles: Profiles, number: int, move: Any) -> None:
    match move:
        case "sync":
            profiles.sync_all()
            _compare(profiles)
        case "step":
            profiles.sync.evaluate(profiles.now_ms)
        case "fail" | "lose the answer":
            profiles.fail(is_written=move != "fail")
        case "tell":
            profiles.tell()
        case "crash":
            profiles.tell(then_crash=True)
        case "restart":
            profiles.restart()
        case "ingest":
            profiles.ingest.step()
        case "make again":
            profiles.make_again()
        case "follow":
            profiles.sync.follow(profiles.ready, profiles.made)
        case ("aim", to):
            profiles.aim(to)
        case ("wait", seconds):
            profiles.now_ms += seconds * 1_000
        case (user, previous):
            profiles.journal.append(record("alias", f"l{number}", userId=user, previousId=previous))
        case list():
            profiles.journal.append(
                *(
                    record(type, f"m{id}", profiles.now_ms - seconds * 1_000, **body, **who)
                    for (type, body), who, id, seconds in move
                )
            )


def _compare(profiles: Profiles) -> None:
    people = People(profiles.store.connection)
    rows = profiles.store.connection.execute("SELECT id FROM persons WHERE user_id IS NOT NULL")
    for number in {people.person(id).number for (id,) in rows.fetchall()}:
        person = people.person(number)
        values: dict[str, object] = {}
        for ready in READY:
            members = frozenset(id for id, value in values.items() if value is True)
            value, _ = ready.judge(PersonFacts(person, values, members), profiles.now_ms)
            values[ready.key[1]] = value
            for destination, known in profiles.known.items():
                told = known.get((ready.trait, person.user_id or ""), ready.empty)
                assert told == as_json(value), (ready.key, person.user_id, destination)
            if ready.key[0] == "audience":
                _compare_history(profiles, person, ready.key[1], is_member=value is True)


def _compare_history(profiles: Profiles, person: Person, audience: str, is_member: bool) -> None:
    """It ends with what holds, begins with coming, and alternates in between."""
    changes = changes_of(profiles.store.connection, person, audience)
    assert [each.member for each in changes] == [bool(n % 2) == is_member for n in range(1, len(changes) + 1)]
    assert not is_member or changes
    assert not changes or changes[-1].member
    assert [each.at_ms for each in changes] == sorted((each.at_ms for each in changes), reverse=True)
