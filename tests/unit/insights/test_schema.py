"""What a source sends: names, counts, properties and types, within bounds, and across restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.database.location import DatabaseLocation
from hookline.insights import schema
from hookline.insights.schema import (
    EXAMINED_EVERY,
    EXAMINED_FIRST,
    OTHERS,
    PROPERTIES_MAX,
    Distinct,
    Name,
    NameSchema,
    SchemaLog,
    SchemaReader,
    SchemaStore,
)
from hookline.journal.local.appender import LocalAppender
from hookline.journal.port import Group
from hookline.journal.record import Record
from tests.unit.conftest import LocationOf
from tests.unit.control.running import record
from tests.unit.database.held_log import held_log


class Followed:
    """A journal, what follows it, and what was noted of it."""

    def __init__(self, folder: Path, location: DatabaseLocation) -> None:
        self.folder = folder
        self.place = location
        self.begin()

    def begin(self) -> None:
        self.store = SchemaStore(self.place)
        self.reader = SchemaReader(self.folder, self.store)
        self.log = SchemaLog(self.place)

    def kill(self) -> None:
        """Control ends without saving, and begins anew."""
        self.store.close()
        self.begin()

    def append(self, *records: Record, retention_bytes: int = 2**30) -> None:
        """Store records as collect would."""

        async def store() -> None:
            appender = LocalAppender(
                self.folder / "journal", retention_seconds=1e9, retention_bytes=retention_bytes, segment_bytes=65_536
            )
            await appender.append(records)
            appender.retain(0)
            await appender.close()

        asyncio.run(store())

    def read(self) -> None:
        """Read to the end, and save."""
        while self.reader.read(60.0):
            pass
        self.reader.save()


@pytest.fixture
def followed(tmp_path: Path, location_of: LocationOf) -> Iterator[Followed]:
    """An empty journal that is followed."""
    made = Followed(tmp_path, location_of("insights"))
    yield made
    made.reader.close()
    made.log.close()
    made.store.close()


def test_names_and_counts(followed: Followed) -> None:
    """Each type and name has its count and times; what was refused does not count."""
    followed.append(
        record("m1", "Order"),
        record("m2", "Order"),
        record("m3", type="page", name="Home"),
        record("m4", type="identify"),
        record("m5", "Bad", rejected="no"),
        record("m6", "Order", source="app"),
    )
    followed.read()
    names = followed.log.names("site")
    assert {name: schema.count for name, schema in names.items()} == {
        Name("identify", ""): 1,
        Name("page", "Home"): 1,
        Name("track", "Order"): 2,
    }
    order = names[Name("track", "Order")]
    assert 0 < order.first_seen <= order.last_seen
    assert followed.log.names("nobody") == {}


def test_new_names_and_rejected_items_are_news(followed: Followed) -> None:
    """Once each: a name that was known before, also to an earlier process, is none."""
    followed.append(record("m1", "Order"), record("m2", "Order"), record("m3", "Bad", rejected="no"))
    followed.read()
    assert [(each.name, each.rejected) for each in followed.reader.news] == [("Order", ""), ("", "missing_event")]
    followed.kill()
    followed.append(record("m4", "Order"), record("m5", "Refund"))
    followed.read()
    assert [each.name for each in followed.reader.news] == ["Refund"]


def test_names_and_properties_are_forgotten(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rows and files, in what is read and not yet saved, and in news; what came after it counts anew, and what was
    erased since it was read ahead is not noted."""
    followed.append(
        *(record(f"m{n}", name) for n, name in enumerate(("Order", "Order of 4711", "Refund"))),
        record("m4", "Order", properties={"total": 1, "of 4711": {"x": 4711}}),
        record("m5", type="page", name="/users/4711"),
    )
    for number in range(60):  # rows that grow are written anew, elsewhere in their pages
        followed.read()
        followed.append(record(f"g{number}", "Order of 4711", properties={f"property {number} of 4711": number}))
    while followed.reader.read(60.0):
        pass
    monkeypatch.setattr("hookline.insights.schema.NAMES_MAX", 2)
    if isinstance(followed.place, Path):
        with held_log(followed.place, lambda work: work(followed.reader._store._connection)):
            assert not followed.reader.forget(lambda text: "4711" in text)
    assert followed.reader.forget(lambda text: "4711" in text)
    monkeypatch.undo()
    names = followed.log.names("site")
    assert set(names) == {Name("track", "Order"), Name("track", "Refund")}
    assert (names[Name("track", "Order")].count, set(names[Name("track", "Order")].properties)) == (2, {"total"})
    assert [each.name for each in followed.reader.news] == ["Order", "Refund"]
    if isinstance(followed.place, Path):
        files = b"".join(file.read_bytes() for file in followed.place.parent.glob("insights.db*"))
        assert b"4711" not in files
    followed.append(record("m6", "Order"), record("m7", "Order of 4711"))
    followed.read()
    names = followed.log.names("site")
    assert (names[Name("track", "Order")].count, names[Name("track", "Order of 4711")].count) == (3, 1)


def test_a_reading_begins_once_however_often_it_rests(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Kafka each beginning costs a search, and what brokers have sent ahead is gone with the end, twenty times what
    a turn notes: half as much was noted in the same time."""
    begun: list[int] = []
    read = followed.reader._journal.read

    def begin(partition: int, offset: int) -> Iterator[Group]:
        begun.append(offset)
        return read(partition, offset)

    monkeypatch.setattr(followed.reader._journal, "read", begin)
    for first in (0, 250, 500):
        followed.append(*(record(f"m{number}", "Order") for number in range(first, first + 250)))
    assert followed.reader.read(-1.0)
    followed.append(record("m750", "Order"))
    while followed.reader.read(-1.0):
        pass
    assert begun == [0, 750]
    followed.reader.save()
    assert followed.log.names("site")[Name("track", "Order")].count == 751


def test_properties_and_types(followed: Followed) -> None:
    """Paths one level deep, with how often each type was seen; traits count for identify calls."""
    first = {"total": 1.5, "cart": {"id": "c", "items": [1], "deep": {"x": 1}}, "gift": True, "code": None}
    followed.append(
        record("m1", "Order", properties=first),
        record("m2", "Order", properties={"total": "free"}),
        record("m3", "Order", properties="none"),
        record("m4", type="identify", traits={"plan": "pro"}, properties={"not": "these"}),
    )
    followed.read()
    names = followed.log.names("site")
    order = names[Name("track", "Order")]
    assert order.properties == {
        "total": {"number": 1, "string": 1},
        "cart": {"object": 1},
        "cart.id": {"string": 1},
        "cart.items": {"array": 1},
        "cart.deep": {"object": 1},
        "gift": {"boolean": 1},
        "code": {"null": 1},
    }
    assert (order.examined, order.left_out) == (3, False)
    assert list(names[Name("identify", "")].properties) == ["plan"]


def test_names_are_cut_before_they_are_joined() -> None:
    """An object's long name is not written out for each property in it; what is noted is the same."""

    class Name(str):
        def __format__(self, spec: str) -> str:
            raise AssertionError("joined as long as it is")

    noted = NameSchema(properties={})
    noted.examine({Name("a" * 150): {"in": 1, "of": "it"}, Name("b"): {Name("c" * 150): None}})
    assert noted.properties == {
        "a" * 100: {"object": 1, "number": 1, "string": 1},
        "b": {"object": 1},
        "b." + "c" * 98: {"null": 1},
    }


def test_a_page_of_names_reads_no_others(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of type and name, behind the last one, with the number of all; a source may have a thousand."""
    monkeypatch.setattr(schema, "NAMES_MAX", 6)
    followed.append(*(record(f"m{n}", f"Name {n}") for n in range(9)), record("p", type="page", name="Home"))
    followed.read()
    read: list[str] = []
    monkeypatch.setattr(schema, "_kept", lambda text, kept=schema._kept: read.append(text) or kept(text))
    first = followed.log.page("site", 2)
    assert ([name for _, name in (each for each, _ in first.items)], len(read)) == (["Name 0", "Name 1"], 2)
    assert (first.names, first.other_events) == (6, 4)
    rest = followed.log.page("site", 9, Name("track", "Name 1"))
    assert [name.name for name, _ in rest.items] == ["Name 2", "Name 3", "Name 4", "Name 5"]
    one = followed.log.page("site", 9, None, "track", "Name 3")
    assert ([name.name for name, _ in one.items], one.names) == (["Name 3"], 1)
    assert followed.log.page("nobody", 9) == ([], 0, 0)


def test_a_restart_counts_nothing_twice(followed: Followed) -> None:
    """What was not saved is read again, what was saved is not."""
    followed.append(*(record(f"m{n}", "Order", properties={"n": n}) for n in range(10)))
    followed.read()
    followed.append(*(record(f"n{n}", "Order", properties={"n": n}) for n in range(5)))
    followed.reader.read(60.0)
    followed.kill()
    followed.read()
    followed.kill()
    followed.read()
    order = followed.log.names("site")[Name("track", "Order")]
    assert (order.count, order.properties["n"]) == (15, {"number": 15})
    assert followed.log.places() == {0: 15}


def test_names_are_bounded(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that makes up names gets so many, and the rest is counted together."""
    monkeypatch.setattr(schema, "NAMES_MAX", 3)
    followed.append(*(record(f"m{n}", f"Name {n}") for n in range(10)), record("again", "Name 1"))
    followed.read()
    names = followed.log.names("site")
    assert (len(names), names[OTHERS].count, names[Name("track", "Name 1")].count) == (4, 7, 2)
    long = record("long", "x" * 5_000, source="app")
    followed.append(long)
    followed.read()
    (name,) = followed.log.names("app")
    assert len(name.name) == 200


def test_what_retention_took_is_counted(followed: Followed) -> None:
    """A reader that was away too long goes on with what is there, and says how many events it has not seen."""
    followed.append(record("m0", "Old"))
    followed.read()
    for start in range(0, 3_000, 100):
        body = {"text": "x" * 500}
        records = (record(f"m{start}-{n}", "New", properties=body) for n in range(100))
        followed.append(*records, retention_bytes=200_000)
    followed.read()
    seen = followed.log.names("site")[Name("track", "New")].count
    assert 0 < seen < 3_000
    assert seen + followed.log.missed() == 3_000


def test_a_moment_at_a_time(followed: Followed) -> None:
    """Reading ends when its time is over, and goes on there."""
    for start in range(0, 300, 100):
        followed.append(*(record(f"m{start + n}", "Order") for n in range(100)))
    looks = 1
    while followed.reader.read(0.0):
        looks += 1
    followed.reader.save()
    assert looks > 1
    assert followed.log.names("site")[Name("track", "Order")].count == 300


def test_not_every_event_is_looked_into() -> None:
    """The first ones all, then one of so many; each is counted."""
    schema = NameSchema(properties={})
    for _ in range(EXAMINED_FIRST + 10 * EXAMINED_EVERY):
        schema.see(1)
        if schema.to_examine:
            schema.examine({"a": 1})
    assert (schema.count, schema.examined) == (EXAMINED_FIRST + 10 * EXAMINED_EVERY, EXAMINED_FIRST + 10)


def test_properties_are_bounded() -> None:
    """Beyond the bound known ones still count, and it is said that there are more."""
    schema = NameSchema(properties={})
    schema.examine({f"p{n}": n for n in range(PROPERTIES_MAX + 50)})
    schema.examine({"p0": "text", "y" * 5_000: 1})
    assert (len(schema.properties), schema.left_out) == (PROPERTIES_MAX, True)
    assert schema.properties["p0"] == {"number": 1, "string": 1}


def test_users_are_counted_once_a_month(followed: Followed) -> None:
    """Per source and all together; the same user of two sources is one."""
    people: list[Any] = [{"userId": f"u{n % 40}", "source": "site" if n % 2 else "app"} for n in range(400)]
    followed.append(*(record(f"m{n}", **each) for n, each in enumerate(people)), record("x", source="app", userId="u1"))
    followed.read()
    followed.kill()
    followed.read()
    together, *of_sources = followed.log.users(12)
    assert (together.source, together.users) == (None, 40)
    assert {each.source: each.users for each in of_sources} == {"app": 21, "site": 20}


@pytest.mark.parametrize("count", [0, 1, 1_000, 60_000])
def test_many_different_values(count: int) -> None:
    """The estimate is within five percent, and repeats change nothing."""
    seen = Distinct()
    for number in range(count):
        seen.add(f"user {number}")
    assert abs(seen.count() - count) <= count * 0.05
    again = Distinct(bytes(seen.registers))
    assert not any(again.add(f"user {number}") for number in range(min(count, 100)))


def test_unreadable_numbers_count_all_the_same(followed: Followed) -> None:
    """An event whose properties cannot be decoded has a name."""
    whole = record("m1", "Order")
    body = whole.body[:-1] + b', "properties": {"n": 1e999}}'
    followed.append(record("m2", "Order"), _with_body(whole, body))
    followed.read()
    assert followed.log.names("site")[Name("track", "Order")].count == 2


def _with_body(whole: Record, body: bytes) -> Record:
    whole.body = body
    assert json.loads(body)
    return whole


def test_what_is_known_of_many_sources_is_looked_up_together(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of three hundred sources: two looks at names and at users, and what was known before still counts."""
    sources = [f"s{number}" for number in range(300)]
    followed.append(*(record(f"a{source}", "Order", source=source, userId="u1") for source in sources))
    followed.read()
    followed.kill()
    looks = {"names": 0, "users": 0}
    for name, real in (("names", followed.store.names), ("users", followed.store.users)):

        def counted(*given: Any, name: str = name, real: Any = real) -> Any:
            looks[name] += 1
            return real(*given)

        monkeypatch.setattr(followed.store, name, counted)
    for source in sources:  # each a group of its own
        followed.append(record(f"b{source}", "Order", source=source, userId="u2"))
    followed.read()
    assert looks == {"names": 2, "users": 2}
    assert [followed.log.names(source)[Name("track", "Order")].count for source in sources] == [2] * 300
    assert [each.users for each in followed.log.users(1) if each.source is not None] == [2] * 300
