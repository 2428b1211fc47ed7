"""How long a search for people takes with many of them, and what keeping the index costs where traits come in.

python -m bench.people_search [PEOPLE]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.people.store import traits
from hookline.people.store.batch import ANONYMOUS, USER, Batch, ReadPosition
from hookline.people.store.search import TRAITS, PeopleSearch
from hookline.people.store.store import ProfileStore
from hookline.people.store.traits import Trait

PEOPLE = 1_000_000
PER_BATCH = 25_000
SEARCHES = 2_000
SYLLABLES = ("ka", "ri", "mo", "len", "sta", "vi", "jor", "ne", "da", "bel", "hu", "tor", "mi", "sa", "ul", "fen")


def main(people: int = PEOPLE) -> None:
    """Fill a database with and without the index, and search in the first."""
    with TemporaryDirectory(prefix="hookline-bench-") as name:
        for label, names in (("without", ()), ("with", TRAITS)):
            path = Path(name) / f"{label}.db"
            store = ProfileStore(path, names)
            seconds, processor = _fill(store, people)
            store.overwrite_gaps()
            size = path.stat().st_size / people
            print(
                f"{label} index: {people / seconds:,.0f} people/s, {processor:.1f} µs CPU, {size:,.0f} bytes a person"
            )
            if names:
                _search(store, people)
                _build(store, people)
            store.close()


def _fill(store: ProfileStore, people: int) -> tuple[float, float]:
    random.seed(7)
    began, processor = time.perf_counter(), time.process_time()
    for first in range(1, people + 1, PER_BATCH):
        batch = Batch()
        for person in range(first, min(first + PER_BATCH, people + 1)):
            batch.persons[person] = person
            batch.user_ids[person] = f"user-{person:07}"
            batch.identities[USER, f"user-{person:07}"] = person
            batch.identities[ANONYMOUS, f"{random.getrandbits(128):032x}"] = person
            batch.add_traits(person, traits.packed(_traits(person)))
        batch.positions[0] = ReadPosition(first)
        store.write(batch)
        while store.trait_chunks.fold():
            pass
    return time.perf_counter() - began, (time.process_time() - processor) / people * 1e6


def _traits(person: int) -> dict[str, Trait]:
    first, last = _word(), _word()
    given = {
        "email": f"{first}.{last}{person}@{_word()}.example",
        "name": f"{first.title()} {last.title()}",
        "plan": "pro",
    }
    return {name: Trait(value, person, person, person, "site") for name, value in given.items()}


def _word() -> str:
    return "".join(random.choices(SYLLABLES, k=3))


def _search(store: ProfileStore, people: int) -> None:
    reader = PeopleSearch(store.connection)
    kinds: dict[str, Callable[[], str]] = {
        "one letter": lambda: random.choice("kmsvjndbhtuf"),
        "three letters of a name": lambda: _word()[:3],
        "a whole name": lambda: f"{_word()} {_word()}",
        "the beginning of an e-mail": lambda: f"{_word()}.{_word()}1",
        "the beginning of a user id": lambda: f"user-{random.randrange(people):07}"[:10],
        "nobody": lambda: "zzz" + _word(),
    }
    for label, text in kinds.items():
        took = []
        for _ in range(SEARCHES // len(kinds)):
            wanted = text()
            began = time.perf_counter()
            reader.find(wanted, 6)
            took.append((time.perf_counter() - began) * 1000)
        took.sort()
        print(
            f"{label}: p50 {took[len(took) // 2]:.2f} ms, p99 {took[len(took) * 99 // 100]:.2f} ms,"
            f" max {took[-1]:.1f} ms"
        )
    began = time.perf_counter()
    reader.identified(50)
    print(f"the list's first page: {(time.perf_counter() - began) * 1000:.1f} ms")


def _build(store: ProfileStore, people: int) -> None:
    store.connection.execute("UPDATE search_build SET next_person = 0, end_person = ?", (people,))
    for table in ("search_terms", "search_people"):
        store.connection.execute(f"DELETE FROM {table}")
    began, longest = time.perf_counter(), 0.0
    step = began
    while store.search.step():
        longest, step = max(longest, time.perf_counter() - step), time.perf_counter()
    print(f"built anew: {people / (time.perf_counter() - began):,.0f} people/s, longest step {longest * 1000:.0f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
