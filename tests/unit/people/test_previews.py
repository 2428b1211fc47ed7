"""Previews: they find whom a saved definition would find, wait for nobody longer than they must, and leave nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.database.location import DatabaseLocation
from hookline.journal.record import Record
from hookline.people import previews
from hookline.people.definitions.definition import in_order, ready_of
from hookline.people.definitions.feature import windows_of
from hookline.people.ingest.ingest import Backfill, Ingest
from hookline.people.previews import (
    KEPT_MS,
    PREVIEWS_MAX,
    TIME_MAX_MS,
    Preview,
    PreviewId,
    PreviewLog,
    PreviewRequests,
    Previews,
    RequestedPreview,
)
from hookline.people.store import catalog
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.people import People, PersonFacts
from hookline.people.store.store import ProfileStore
from hookline.people.sync.sync import Sync
from tests.postgres import PostgresServer
from tests.unit.conftest import LocationOf, new_places
from tests.unit.people.conftest import examples
from tests.unit.people.memory_journal import NOW_MS, MemoryJournal, record
from tests.unit.people.test_sync_model import CONDITIONS, TRAITS, aliases, events

ORDERS = {"event": "Order", "count": {"gte": 2}}
(SPEND,) = TRAITS


def audience(condition: dict[str, Any], id: str = "preview") -> Audience:
    """An audience of this condition, told to nobody."""
    return msgspec.convert({"id": id, "name": id, "condition": condition}, Audience)


def order(number: int, user: str) -> Record:
    """One order."""
    return record("track", f"o{number}", event="Order", userId=user, properties={"total": 5})


class Rig:
    """The real parts of the role that previews meet, stepped by hand, on a database that survives restarts."""

    def __init__(self, folder: Path, location: DatabaseLocation, *saved: Definition) -> None:
        self.position, self.folder, self.journal, self.now_ms = location, folder, MemoryJournal(), NOW_MS
        self.saved = saved
        self.requests = PreviewRequests(folder)
        self.asked = 0
        self.open()

    def open(self) -> None:
        """Start as a process does."""
        self.store = ProfileStore(self.position)
        self.registry = FeatureCatalog(self.store)
        self.ingest = Ingest(self.journal, self.store, batch_records=3)
        self.backfill = Backfill(self.journal, self.store, self.registry)
        self.sync = Sync(self.store)
        self.previews = Previews(self.store, self.registry, self.ingest, self.backfill, self.sync, self.requests)
        self.save(*self.saved)

    def save(self, *saved: Definition) -> None:
        """Have exactly these definitions."""
        self.saved = saved
        audiences = [each for each in saved if isinstance(each, Audience)]
        traits = [each for each in saved if isinstance(each, ComputedTrait)]
        ready = in_order(audiences, traits)
        self.sync.follow(ready, {each.key: 1 for each in ready})
        self.previews.traits = {each.id: each for each in traits}
        self.keep()

    def keep(self) -> None:
        """Keep what is asked for by now."""
        spans = {0: Span(self.journal.start(0), self.ingest.position(0).next_offset)}
        self.registry.keep(windows_of(self.saved), spans, self.previews.wanted())
        self.ingest.keep(self.registry.features())

    def restart(self) -> None:
        """End as a process does that had no time to, and begin again."""
        self.store.connection.close()
        self.open()

    def ask(self, definition: Definition, against: Audience | None = None, replaces: str = "") -> PreviewId:
        """Ask for a preview."""
        self.asked += 1
        id = PreviewId(f"prv_{self.asked:04}")
        if isinstance(definition, Audience):
            wish = RequestedPreview(
                asked_ms=self.now_ms, audience=definition, against=against, replaces=PreviewId(replaces) or None
            )
        else:
            wish = RequestedPreview(asked_ms=self.now_ms, computed_trait=definition)
        self.requests.ask(id, wish)
        return id

    def follow(self) -> None:
        """Look for what is asked."""
        if self.previews.follow(self.now_ms):
            self.keep()

    def step(self) -> bool:
        """One step of everything, in the order of the role."""
        self.follow()
        worked = self.ingest.step()
        unready = self.registry.unready()
        waiting = frozenset(feature for feature, id in self.registry.for_definitions().items() if id in unready)
        worked = self.sync.evaluate(self.now_ms, waiting) or self.previews.step(self.now_ms) or worked
        worked = self.backfill.step() or worked
        found = self.sync.to_send(self.now_ms)
        if found is not None:
            self.sync.sent(found[0], [person for person, _ in found[1]], self.now_ms)
        return self.registry.let_go() or found is not None or worked

    def finish(self) -> None:
        """Everything there is to do."""
        while self.step():
            pass

    def get(self, id: PreviewId) -> Preview | None:
        """What is written of a preview."""
        return PreviewLog(self.store.connection).get(id)

    def result(self, id: PreviewId) -> tuple[str, int | None, int | None]:
        """State, people and members."""
        found = self.get(id)
        assert found is not None
        return found.state, found.people, found.members


@pytest.fixture
def rig(tmp_path: Path, location_of: LocationOf) -> Rig:
    """Three people with one, two and three orders, applied before anybody asked for orders."""
    found = Rig(tmp_path, location_of("profiles"))
    found.journal.append(*(order(n, user) for n, user in enumerate("abbccc")))
    found.finish()
    return found


def test_a_condition_nobody_asked_for_is_read_up_and_counted(rig: Rig) -> None:
    """The number and the people are right, what was kept for it goes with it, and nobody is to be told."""
    id = rig.ask(audience(ORDERS))
    rig.finish()
    assert rig.result(id) == ("done", 3, 2)
    found = rig.get(id)
    assert found is not None
    assert found.progress == 1
    people = People(rig.store.connection)
    assert {people.person(each.person).user_id for each in found.sample} == {"b", "c"}
    assert rig.sync.to_send(rig.now_ms) is None
    assert rig.registry.features()
    rig.now_ms += KEPT_MS
    rig.finish()
    assert rig.get(id) is None
    for table in ("features", "history", "previews", "preview_sample", "backfills"):
        assert rig.store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_a_step_that_fails_leaves_nobody_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """People who were read when the database refused to go on are counted as well, and nobody twice."""
    monkeypatch.setattr(previews, "PEOPLE_PER_STEP", 1)
    id = rig.ask(audience(ORDERS))
    rig.follow()
    while rig.backfill.step():
        pass
    judge = rig.previews._judge

    def refused(*_: object) -> None:
        raise OSError("the server went")

    monkeypatch.setattr(rig.previews, "_judge", refused)
    with pytest.raises(OSError, match="went"):
        rig.previews.step(rig.now_ms)
    monkeypatch.setattr(rig.previews, "_judge", judge)
    rig.finish()
    assert rig.result(id) == ("done", 3, 2)


def test_a_computed_trait_shows_values(rig: Rig) -> None:
    """The members are those who have a value, and the sample has it."""
    id = rig.ask(msgspec.structs.replace(SPEND, within=None))
    rig.finish()
    found = rig.get(id)
    assert found is not None
    assert (found.people, found.members) == (3, 3)
    assert sorted(each.value for each in found.sample) == [5, 10, 15]


def test_a_comparison_survives_a_restart(rig: Rig) -> None:
    """Both conditions are judged at one moment, also what only the second one asks for; a crash counts nobody twice."""
    id = rig.ask(audience(ORDERS), against=audience({"event": "Order", "count": {"lte": 2}}))
    rig.follow()
    rig.restart()
    rig.finish()
    found = rig.get(id)
    assert found is not None
    assert (found.members, found.compared, found.kept) == (2, 2, 1)
    people = People(rig.store.connection)
    sides = {people.person(each.person).user_id: each.side for each in found.sample}
    assert sides == {"a": "removed", "b": "kept", "c": "added"}


def test_one_that_is_replaced_goes_with_what_was_kept_for_it(rig: Rig) -> None:
    """Half-typed names leave no history behind, under way or done."""
    first = rig.ask(audience({"event": "Ord"}))
    rig.follow()
    second = rig.ask(audience({"event": "Orde"}), replaces=first)
    rig.finish()
    third = rig.ask(audience(ORDERS), replaces=second)
    rig.finish()
    assert (rig.get(first), rig.get(second)) == (None, None)
    assert rig.result(third) == ("done", 3, 2)
    assert [feature.name for feature in rig.registry.features().values()] == ["Order"]


def test_saving_it_reads_nothing_twice(rig: Rig) -> None:
    """What a preview read up serves the audience that is saved then."""
    rig.ask(audience(ORDERS))
    rig.finish()
    rig.save(audience(ORDERS, "buyers"))
    assert rig.backfill.left() == 0
    assert rig.registry.unready() == set()
    rig.finish()
    assert rig.store.connection.execute("SELECT came FROM syncs").fetchone() == (2,)
    rig.now_ms += KEPT_MS
    rig.finish()
    assert list(rig.registry.for_definitions()) == list(rig.registry.features().values())


def test_no_definition_waits_for_a_preview(tmp_path: Path, location_of: LocationOf) -> None:
    """A preview of a longer window reads up beside what the definition keeps, which is complete all the time."""
    rig = Rig(tmp_path, location_of("profiles"), audience({**ORDERS, "within": "1h"}, "buyers"))
    old = [record("track", f"x{n}", NOW_MS - 2 * 3_600_000, event="Order", userId="a") for n in range(2)]
    rig.journal.append(*old, order(1, "b"), order(2, "b"))
    rig.finish()
    id = rig.ask(audience({**ORDERS, "within": "3h"}))
    rig.follow()
    numbers = rig.registry.for_definitions()
    assert not set(numbers.values()) & rig.registry.unready()
    rig.finish()
    assert rig.result(id) == ("done", 2, 2)
    assert rig.store.connection.execute("SELECT sum(came), sum(went) FROM syncs").fetchone() == (1, 0)


def test_a_definitions_history_is_read_up_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a definition waits for goes on although a preview, that began later, stands further behind."""
    monkeypatch.setattr("hookline.people.ingest.ingest.BACKFILL_RECORDS", 1)
    rig.journal.append(record("page", "p1", name="Home", userId="a"))
    while rig.ingest.step():
        pass
    rig.save(audience({"page": "Home"}, "home"))
    assert rig.backfill.step()
    assert rig.backfill.left() == 1
    rig.ask(audience(ORDERS))
    rig.follow()
    assert rig.backfill.step()
    assert rig.registry.unready().isdisjoint(rig.registry.for_definitions().values())
    assert rig.backfill.left() == 7


def test_a_preview_over_another_audience_waits_for_its_members(rig: Rig) -> None:
    """An audience that was made a moment ago counts as what it will be, not as empty."""
    id = rig.ask(audience({"not": {"audience": "buyers"}}))
    rig.save(audience(ORDERS, "buyers"))
    rig.finish()
    assert rig.result(id) == ("done", 3, 1)


def test_a_restart_counts_once_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the process dies, the next one comes to the same number."""
    monkeypatch.setattr(previews, "PEOPLE_PER_STEP", 1)
    id = rig.ask(audience(ORDERS))
    steps = 0
    while rig.result(id)[0] != "done" if rig.get(id) else True:
        for _ in range(steps):
            rig.step()
        steps += 1
        rig.restart()
    assert steps > 3, "it was interrupted in every state"
    assert rig.result(id) == ("done", 3, 2)


def test_progress_is_synced(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It only grows, in both states, and people are counted as they are looked at."""
    monkeypatch.setattr(previews, "PEOPLE_PER_STEP", 1)
    monkeypatch.setattr("hookline.people.ingest.ingest.BACKFILL_RECORDS", 1)
    rig.journal.append(order(6, "d"))
    while rig.ingest.step():
        pass
    id = rig.ask(audience(ORDERS))
    seen = []
    while rig.step():
        found = rig.get(id)
        assert found is not None
        seen.append(found)
    assert [each.progress for each in seen] == sorted(each.progress for each in seen)
    assert [each.people for each in seen if each.state == "counting"] == [1, 2, 3, 4]
    assert {each.state for each in seen} == {"reading", "counting", "done"}


def test_what_takes_too_long_fails_with_advice(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview is told to have failed and what to do instead; the next one is taken up."""
    monkeypatch.setattr(rig.backfill, "step", lambda: False)
    id = rig.ask(audience(ORDERS))
    rig.finish()
    assert rig.result(id)[0] == "reading"
    rig.now_ms += TIME_MAX_MS
    rig.finish()
    found = rig.get(id)
    assert found is not None
    assert found.state == "failed"
    assert "Save it without destinations" in (found.detail or "")
    other = rig.ask(audience({"if": 'traits.plan = "x"'}))
    rig.finish()
    assert rig.result(other) == ("done", 3, 0)


def test_what_cannot_be_read_fails(rig: Rig) -> None:
    """A wish of another version does not keep the role from its work."""
    id = rig.ask(audience(ORDERS))
    (rig.folder / "previews" / id).write_text('{"asked_ms": 1, "cohort": {}}')
    rig.finish()
    rig.restart()
    found = rig.get(id)
    assert found is not None
    assert (found.state, found.detail and "ask again" in found.detail) == ("failed", True)


def test_of_too_many_the_oldest_go(rig: Rig) -> None:
    """Finished ones first; what is under way stays as long as it may."""
    ids = [rig.ask(audience({"event": f"E{n}"})) for n in range(PREVIEWS_MAX + 2)]
    rig.finish()
    assert sum(rig.get(id) is not None for id in ids) == PREVIEWS_MAX


def test_history_goes_in_steps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large history does not hold the role up when it goes, and comes back under a number of its own."""
    monkeypatch.setattr(catalog, "BYTES_PER_STEP", 1)
    rig.ask(audience(ORDERS))
    rig.finish()
    rig.now_ms += KEPT_MS
    rig.follow()
    assert rig.registry.let_go()
    assert rig.store.connection.execute("SELECT count(*) FROM history").fetchone() == (2,)
    id = rig.ask(audience(ORDERS))
    rig.finish()
    assert rig.result(id) == ("done", 3, 2)


def test_it_finds_whom_a_saved_definition_finds(backend: PostgresServer | None) -> None:
    """For every kind of clause, over histories with anonymous people and aliases: each person judged alone."""

    @settings(max_examples=examples(backend, 40), deadline=None)
    @given(st.lists(st.one_of(st.lists(events, min_size=1, max_size=4), aliases), max_size=12), st.booleans())
    def run(moves: list[Any], restart: bool) -> None:
        _run(backend, moves, restart)

    run()


def _run(backend: PostgresServer | None, moves: list[Any], restart: bool) -> None:
    wanted: list[Definition] = [
        *(audience(each) for each in CONDITIONS.values() if "audience" not in str(each)),
        SPEND,
    ]
    with TemporaryDirectory() as folder, new_places(backend) as positions:
        rig = Rig(Path(folder), positions("profiles"))
        ids = []
        for number, move in enumerate(moves):
            if isinstance(move, tuple):
                rig.journal.append(record("alias", f"l{number}", userId=move[0], previousId=move[1]))
            else:
                rig.journal.append(
                    *(record(type, f"m{id}", NOW_MS - s * 1_000, **body, **who) for (type, body), who, id, s in move)
                )
            rig.ingest.step()
        ids = [rig.ask(each) for each in wanted]
        rig.follow()
        if restart:
            rig.step()
            rig.restart()
        rig.finish()
        # Alone: the same features, now complete, person by person.
        rig.save(*(msgspec.structs.replace(each, id=f"d{n}", name=f"d{n}") for n, each in enumerate(wanted)))
        rig.finish()
        for id, definition in zip(ids, wanted, strict=True):
            assert rig.result(id)[2] == _alone(rig, definition), definition
        rig.store.close()


def _alone(rig: Rig, definition: Definition) -> int:
    people, ready = People(rig.store.connection), ready_of(definition, {})
    rows = rig.store.connection.execute("SELECT id FROM persons").fetchall()
    judged = [
        ready.judge(PersonFacts(people.person(number), {}, frozenset()), rig.now_ms)[0]
        for number in {people.person(id).number for (id,) in rows}
    ]
    empty = msgspec.json.decode(ready.empty)
    return sum(value is not None and value != empty for value in judged)
