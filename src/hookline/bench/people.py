"""How fast the profiles role takes events in, reads them up for a new feature, and looks a person up again."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.bench import crowd, machine
from hookline.bench.rig import Figures
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.reader import LocalReader
from hookline.profiles.backfill import Backfill
from hookline.profiles.feature import Feature
from hookline.profiles.ingest import Ingest
from hookline.profiles.matching import Matcher
from hookline.profiles.people import People
from hookline.profiles.registry import Registry, Span
from hookline.profiles.store import ProfileStore

EVENTS = 300_000
LOOKED_AT = 200
NEW_FEATURE = Feature("track", "", 'properties.currency = "EUR"', "properties.sku")


def people(seconds: float, events: int = EVENTS) -> Figures:
    """Ingest with thirty features kept, one backfill, and looks at single people; the work gives the time it takes."""
    with TemporaryDirectory(prefix="hookline-bench-") as name:
        folder = Path(name)
        asyncio.run(_fill(folder / "journal", events))
        journal, store = LocalReader(folder / "journal"), ProfileStore(folder / "profiles.db")
        registry = Registry(store)
        registry.keep(crowd.FEATURES, {})
        ingest = Ingest(journal, store)
        ingest.matcher = Matcher(registry.features())
        began, processor = time.perf_counter(), time.process_time()
        while ingest.step():
            while store.chunks.put_together():
                pass
        took, used = time.perf_counter() - began, time.process_time() - processor
        figures = {
            "profiles_ingest_per_second": events / took,
            "profiles_ingest_cpu_us_per_event": used / events * 1e6,
            "profiles_persons": float(ingest.person_count),
            "profiles_not_applied_lost": float(events - ingest.applied),
            "profiles_db_bytes_per_event": (folder / "profiles.db").stat().st_size / events,
            "profiles_rss_mb": machine.memory_of(os.getpid()).rss / 1e6,
        }
        figures |= _looks(store, ingest.person_count)
        figures |= _backfill(journal, store, registry, ingest)
        store.close()
        journal.close()
    return figures


def _looks(store: ProfileStore, persons: int) -> Figures:
    people, chance = People(store.connection), random.Random(2)
    took: list[float] = []
    for _ in range(LOOKED_AT):
        began = time.perf_counter()
        person = people.person(chance.randint(1, persons))
        person.traits(), person.groups(), person.identities()
        for feature in crowd.FEATURES:
            person.entries(feature)
        took.append(time.perf_counter() - began)
    took.sort()
    return {"profiles_look_p50_ms": took[LOOKED_AT // 2] * 1000, "profiles_look_p99_ms": took[-2] * 1000}


def _backfill(journal: LocalReader, store: ProfileStore, registry: Registry, ingest: Ingest) -> Figures:
    span = Span(0, ingest.place(0).next_offset)
    registry.keep({**crowd.FEATURES, NEW_FEATURE: None}, {0: span})
    backfill = Backfill(journal, store, registry)
    began = time.perf_counter()
    while backfill.step():
        pass
    return {"profiles_backfill_per_second": span.end_offset / (time.perf_counter() - began)}


async def _fill(folder: Path, events: int) -> None:
    appender = LocalAppender(folder, retention_seconds=1e9, retention_bytes=1 << 40)
    users = max(1, events // crowd.EVENTS_PER_USER)
    for group in crowd.records(events, users, int(time.time() * 1000)):
        await appender.append(group)
    await appender.close()
