"""When the profiles role erases people: before everything else, and not at the priority of everything else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from hookline.connections.definitions.model import Audience, Condition
from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.store import Store
from hookline.database import sqlite as database_sqlite
from hookline.database.open import ensure
from hookline.database.sqlite import engine as sqlite
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.backend import KafkaBackend
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.local.appender import LocalAppender
from hookline.journal.remote import serve_append
from hookline.people.ingest import cpu_throttle, erasing
from hookline.people.ingest.erasing import Erasures
from hookline.people.role import ProfilesRole
from hookline.privacy import id_digest
from hookline.privacy.identities import Identities
from hookline.privacy.model import Action
from hookline.privacy.requests import Requests
from hookline.privacy.search import SearchResult
from hookline.privacy.shared_erased import ErasureFeed
from hookline.privacy.suppressions import PrivacyStore, Suppressions
from hookline.replays.offset_set import OffsetSet
from hookline.settings import Settings
from tests.unit.connections.examples import change, destination, source
from tests.unit.control.running import _append, record

AUDIENCE = Audience(id="all", name="All", condition=Condition(event="*"))
BOTH = '["crm","mail"]'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An installation with an event each of two people."""
    data = tmp_path / "data"
    (data / "run").mkdir(parents=True)
    for which in ("control", "privacy", "profiles"):
        ensure(data / f"{which}.db", which)
    asyncio.run(_append(data / "journal", (record("m1", userId="u1"), record("m2", userId="u2"))))
    return Settings(data_dir=str(data))


@pytest.fixture
def role(settings: Settings) -> Iterator[ProfilesRole]:
    """The role, which has read what there is."""
    found = ProfilesRole(settings)
    while found.work():
        pass
    assert found.ingest.person_count == 2
    yield found
    found.close()


@pytest.fixture
def requests(settings: Settings) -> Iterator[Requests]:
    """What control notes of deletion requests."""
    store = PrivacyStore(settings.data_path / "privacy.db")
    of = id_digest.load(settings.data_path)
    yield Requests(store, of, Suppressions(store, of))
    store.close()


def erase(requests: Requests, user_id: str, *offsets: int, ids: Identities | None = None) -> int:
    """Ask for a deletion, as far as the roles have a part in it; return its number."""
    request = requests.create([user_id], "delete", "tests")
    found = SearchResult([user_id])
    found.ids[0].update(ids or {})
    found.offsets[0] = OffsetSet(sorted(offsets))
    requests.plan(request, found, [])
    requests.clear(request.number)
    return request.number


def done(role: ProfilesRole) -> list[int]:
    """The requests whose people are erased."""
    rows = role.store.connection.execute("SELECT request FROM erasures WHERE done_at IS NOT NULL ORDER BY request")
    return [number for (number,) in rows]


def test_a_rest_ends_when_somebody_is_to_be_erased(role: ProfilesRole, requests: Requests) -> None:
    """It would last an hour."""

    async def resting() -> None:
        rest = asyncio.create_task(role._rest(asyncio.Event(), 3_600))
        await asyncio.sleep(0)
        assert not rest.done()
        number = erase(requests, "u1")
        await rest
        assert role.work()
        assert done(role) == [number]

    asyncio.run(resting())
    assert role.ingest.person_count == 1


def test_people_are_erased_before_anything_is_read(role: ProfilesRole, requests: Requests, settings: Settings) -> None:
    asyncio.run(_append(settings.data_path / "journal", (record("m3", userId="u3"),)))
    first, second = erase(requests, "u1"), erase(requests, "u2")
    assert role.work()
    assert (done(role), role.ingest.lag(), role.ingest.person_count) == ([], 1, 1), "the file is overwritten once"
    assert role.work()
    assert (done(role), role.ingest.lag()) == ([first, second], 1)
    assert role.work()
    assert (role.ingest.lag(), role.ingest.person_count) == (0, 1)


def test_nothing_of_who_is_erased_is_read_from_a_topic_any_more(
    role: ProfilesRole, requests: Requests, settings: Settings
) -> None:
    """Whether or not collect of this machine has heard of it: there may be much left to read, or to read again."""
    topic = settings.data_path / "topic"
    journal = KafkaBackend(topic, KafkaAddress("127.0.0.1:9", "events"))
    erasures = Erasures(role.store, role.ingest, ErasureFeed(settings.data_path / "privacy.db"), journal)
    number = erase(requests, "u1", 3, 7)
    assert erasures.follow(0)
    erasures.close()
    assert (done(role), ErasedPlaces(topic).of(0)) == ([number], {3, 7})


def test_what_was_read_and_not_written_is_read_again(
    role: ProfilesRole, requests: Requests, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may know of people who are erased meanwhile by numbers that are gone."""
    asyncio.run(_append(settings.data_path / "journal", (record("m3", userId="u1"), record("m4", userId="u2"))))

    def full(_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(role.store, "write", full)
        assert not role.work()
    erase(requests, "u1")
    while role.work():
        pass
    rows = role.store.connection.execute("SELECT p.id, p.user_id FROM persons p ORDER BY p.id").fetchall()
    # Here the event of u1 is still in the journal, which control would have erased: it makes another person.
    assert rows == [(2, "u2"), (3, "u1")]


def test_a_step_that_always_fails_keeps_no_other_from_being_taken(
    role: ProfilesRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of those in the background, the trimming included."""
    owners = {
        "put_together": role.store.chunks,
        "fold": role.store.trait_chunks,
        "let_go": role.registry,
        "step": role.trim,
    }
    for failing in owners:
        taken: list[str] = []

        def take(name: str, taken: list[str] = taken, failing: str = failing) -> bool:
            taken.append(name)
            if name == failing:
                raise sqlite.OperationalError("string or blob too big")
            return False

        for name, owner in owners.items():
            monkeypatch.setattr(owner, name, lambda *_, name=name, take=take: take(name))
        assert not role.work()
        assert taken == list(owners)


def test_a_definition_that_is_made_again_is_told_from_the_one_before(role: ProfilesRole, settings: Settings) -> None:
    """By the version of the connections, which a database of people that is lost does not take with it."""
    store = Store(settings.data_path / "control.db")

    def made_after(edit: Edit) -> list[tuple[str, int]]:
        change(store, edit)
        role.follow_definitions()
        return role.store.connection.execute("SELECT name, made FROM definitions").fetchall()

    assert made_after(Put(AUDIENCE)) == [("all", 1)]
    assert made_after(Put(msgspec.structs.replace(AUDIENCE, name="Everybody"))) == [("all", 1)]
    assert made_after(Delete("audience", "all")) == []
    assert made_after(Put(AUDIENCE)) == [("all", 4)]
    change(store, Delete("audience", "all"))
    assert made_after(Put(AUDIENCE)) == [("all", 6)]  # between two looks
    store.close()


def test_a_destination_that_is_added_again_between_two_looks_is_synced(role: ProfilesRole, settings: Settings) -> None:
    """That is how it gets what it missed: also where the audience is disabled meanwhile, and once each time."""
    store = Store(settings.data_path / "control.db")

    def to(*destinations: str, enabled: bool = True) -> Edit:
        return Put(msgspec.structs.replace(AUDIENCE, destinations=destinations, enabled=enabled))

    def in_step_after(*edits: Edit) -> str:
        for edit in edits:
            change(store, edit)
        role.follow_definitions()
        ((told,),) = role.store.connection.execute("SELECT told FROM definitions").fetchall()
        role.store.connection.execute("UPDATE definitions SET told = ?", (BOTH,))  # as after a first sync
        role.follow_definitions()
        return str(told)

    change(store, source(), destination("crm"), destination("mail"))
    assert in_step_after(to("crm", "mail")) == BOTH
    assert in_step_after(to("mail"), to("crm", "mail")) == '["mail"]'
    assert in_step_after(destination("shop")) == BOTH
    for edits in (to("crm", "mail", enabled=False), to("mail", enabled=False)):
        in_step_after(edits)
    assert in_step_after(to("crm", "mail", enabled=False), to("crm", "mail")) == '["mail"]'
    assert in_step_after(destination("shop", name="Shop")) == BOTH
    store.close()


def test_a_disabled_audience_has_no_old_changes_read(
    role: ProfilesRole, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stay so for years, while others change; once it is enabled again, they are read."""
    store = Store(settings.data_path / "control.db")
    asked: list[int] = []
    after = role.feed.definitions_after
    monkeypatch.setattr(role.feed, "definitions_after", lambda version: asked.append(version) or after(version))
    for edit in (
        Put(AUDIENCE),
        Put(msgspec.structs.replace(AUDIENCE, enabled=False)),
        Put(msgspec.structs.replace(AUDIENCE, id="other", name="One")),
        Put(msgspec.structs.replace(AUDIENCE, id="other", name="Another")),
        Put(AUDIENCE),
    ):
        change(store, edit)
        role.follow_definitions()
    store.close()
    assert asked == [3, 1]


def test_what_a_disabled_audience_is_judged_by_is_kept(role: ProfilesRole, settings: Settings) -> None:
    """The journal may have lost the events since; enabled again, it has the members it had."""
    store = Store(settings.data_path / "control.db")

    def members_after(edit: Edit) -> list[tuple[str]]:
        change(store, edit)
        while role.work():
            pass
        return role.store.connection.execute("SELECT value FROM members ORDER BY person").fetchall()

    assert members_after(Put(AUDIENCE)) == [("true",), ("true",)]
    assert members_after(Put(msgspec.structs.replace(AUDIENCE, enabled=False))) == [("true",), ("true",)]

    async def lose_events() -> None:
        journal = LocalAppender(settings.data_path / "journal", retention_seconds=86_400, retention_bytes=2**30)
        journal.erase(0, [0, 1])
        await journal.close()

    asyncio.run(lose_events())
    assert members_after(Put(AUDIENCE)) == [("true",), ("true",)]
    store.close()


@pytest.mark.parametrize("action", ["suppress", "delete"])
def test_nothing_is_sent_about_who_is_suppressed_or_being_erased(
    role: ProfilesRole, requests: Requests, settings: Settings, action: Action
) -> None:
    """The sync goes on to the others, and comes to its end; destinations may have the delete message already."""
    store = Store(settings.data_path / "control.db")
    change(store, source(), destination("crm"), Put(msgspec.structs.replace(AUDIENCE, destinations=("crm",))))
    store.close()
    while role.work():
        pass
    requests.create(["u1"], action, "tests")

    async def sync() -> None:
        journal = LocalAppender(settings.data_path / "journal", retention_seconds=86_400, retention_bytes=2**30)
        server = await serve_append(settings.socket_path("collect.sock"), journal)
        while await role._sync():
            pass
        await role.appender.close()
        server.close()
        await journal.close()

    asyncio.run(asyncio.wait_for(sync(), 30))
    records = [each for group in role.journal.read(0, 0) for each in group.records]
    assert [(each.user_key, each.origin) for each in records] == [("u1", "sdk"), ("u2", "sdk"), ("u2", "audience")]
    assert role.store.connection.execute("SELECT number, sending_at FROM definitions").fetchall() == [(1, None)]


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has priorities of single threads")
def test_the_thread_that_erases_keeps_its_priority() -> None:
    """The others step back below everybody; in a thread of its own, for there is no way back from there."""
    found: list[int] = []

    def steps_back() -> None:
        ordinary = cpu_throttle.OrdinaryThread()
        cpu_throttle.lower_priority()
        found.append(os.sched_getscheduler(0))
        found.append(ordinary.run(lambda: os.sched_getscheduler(0)))
        found.append(ordinary.run(lambda: os.getpriority(os.PRIO_PROCESS, 0)))
        ordinary.close()

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=steps_back)
    thread.start()
    thread.join()
    assert found == [os.SCHED_IDLE, os.SCHED_OTHER, before]


def test_other_work_goes_on_while_many_share_an_id(
    role: ProfilesRole, requests: Requests, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who have the id are looked at in steps; the role reads between them, rests in none, and after a restart
    begins with them again."""
    monkeypatch.setattr(erasing, "SHARING_PER_STEP", 1)
    shared = [record(f"s{n}", type="identify", userId=f"s{n}", anonymousId="unknown") for n in range(5)]
    asyncio.run(_append(settings.data_path / "journal", tuple(shared)))
    while role.work():
        pass
    number = erase(requests, "s0", ids={"unknown": False})
    asyncio.run(_append(settings.data_path / "journal", (record("m3", userId="u3"),)))
    assert role.work()
    assert (done(role), role.ingest.lag(), role.ingest.person_count) == ([], 0, 8)
    assert role.erasures.is_under_way
    again = ProfilesRole(settings)
    steps = 0
    while again.erasures.look() or again.erasures.is_under_way or not done(again):
        assert again.work()
        steps += 1
    assert (done(again), again.ingest.person_count) == ([number], 7)
    assert steps >= 4
    again.close()


def test_a_reader_that_stays_holds_up_the_answer_alone(
    role: ProfilesRole, requests: Requests, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes may be left while somebody reads the file as it was: control hears nothing, and the role reads on."""
    monkeypatch.setattr(database_sqlite, "BUSY_TIMEOUT_SECONDS", 0.05)
    with closing(database_sqlite.connect(settings.data_path / "profiles.db", read_only=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM persons").fetchall()
        number = erase(requests, "u1")
        asyncio.run(_append(settings.data_path / "journal", (record("m3", userId="u3"),)))
        assert role.work()
        assert (done(role), role.ingest.lag(), role.ingest.person_count) == ([], 0, 2)
    while role.work():
        pass
    assert done(role) == [number]
