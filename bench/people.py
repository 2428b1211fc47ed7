"""How fast the profiles role takes events in, syncs an audience, reads up for a new feature, and looks at a person."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import crowd
from hookline.app import GARBAGE_THRESHOLDS
from hookline.bench import machine
from hookline.bench.rig import Figures
from hookline.connections.definitions.model import Audience, Condition, Count
from hookline.database.location import DatabaseLocation
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.people.definitions.definition import in_order
from hookline.people.definitions.feature import Feature, features_of
from hookline.people.ingest.ingest import Backfill, Ingest
from hookline.people.store.batch import Batch
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.history import pack
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from hookline.people.sync.sync import Sync

EVENTS = 300_000
LOOKED_AT = 200
AUDIENCE_MS = 3_600_000
AUDIENCE = Audience(
    id="viewers",
    name="Viewers",
    destinations=("crm",),
    sync_every=AUDIENCE_MS / 1000,
    condition=Condition(event="Product Viewed", count=Count(gte=3), within="30d"),
)
NEW_FEATURE = Feature("track", "", 'properties.currency = "EUR"', "properties.sku")


def people(seconds: float, events: int = EVENTS, location: DatabaseLocation | None = None) -> Figures:
    """Ingest with thirty features kept, two syncs, one backfill, and looks at single people; ``seconds`` has no say.

    People are kept at ``place``, which is to be empty; without one in a file.
    """
    with TemporaryDirectory(prefix="hookline-bench-") as name:
        folder = Path(name)
        asyncio.run(_fill(folder / "journal", events))
        journal, store = LocalReader(folder / "journal"), ProfileStore(location or folder / "profiles.db")
        registry = FeatureCatalog(store)
        registry.keep(crowd.FEATURES, {})
        ingest = Ingest(journal, store)
        ingest.keep(registry.features())
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        began, processor = time.perf_counter(), _processor_seconds()
        ingest.read_ahead(folder / "journal")
        while ingest.step():
            while store.chunks.put_together() or store.trait_chunks.fold():
                pass
        took, used = time.perf_counter() - began, _processor_seconds() - processor
        store.overwrite_gaps()  # so that the file's size tells
        figures = {
            "profiles_ingest_per_second": events / took,
            "profiles_ingest_cpu_us_per_event": used / events * 1e6,
            "profiles_persons": float(ingest.person_count),
            "profiles_not_applied_lost": float(events - ingest.applied),
            "profiles_rss_mb": machine.memory_of(os.getpid()).rss / 1e6,
        }
        if location is None:
            figures["profiles_db_bytes_per_event"] = (folder / "profiles.db").stat().st_size / events
        figures |= _looks(store, ingest.person_count)
        figures |= asyncio.run(_syncs(folder / "told", store, registry, ingest.person_count))
        figures |= _backfill(journal, store, registry, ingest)
        store.close()
        journal.close()
    return figures


def _processor_seconds() -> float:
    """Of this process and of those it has waited for."""
    times = os.times()
    return sum(times[:4])


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


def _backfill(journal: LocalReader, store: ProfileStore, registry: FeatureCatalog, ingest: Ingest) -> Figures:
    span = Span(0, ingest.position(0).next_offset)
    registry.keep({**crowd.FEATURES, NEW_FEATURE: None}, {0: span})
    backfill = Backfill(journal, store, registry)
    began = time.perf_counter()
    while backfill.step():
        pass
    return {"profiles_backfill_per_second": span.end_offset / (time.perf_counter() - began)}


async def _syncs(folder: Path, store: ProfileStore, registry: FeatureCatalog, persons: int) -> Figures:
    """The first sync of an audience, and one after a hundredth of the people did what it asks for."""
    appender = LocalAppender(folder, retention_seconds=1e9, retention_bytes=1 << 40)
    sync = Sync(store)
    sync.follow(in_order([AUDIENCE], []), {("audience", AUDIENCE.id): 1})
    began = time.perf_counter()
    await _sync(sync, appender)
    full, members = time.perf_counter() - began, sync.sent_total
    feature = next(id for id, each in registry.features().items() if each in features_of(AUDIENCE))
    chance, now_ms, batch = random.Random(3), int(time.time() * 1000), Batch(store.chunks.shift())
    batch.positions = {0: store.positions()[0]}
    for person in chance.sample(range(1, persons), persons // 100):
        for number in range(3):
            batch.add_entry(person, pack(person, now_ms - number, chance.randbytes(8), number), [(feature, None)])
    store.write(batch)
    began = time.perf_counter()
    await _sync(sync, appender, later_ms=AUDIENCE_MS)
    changed = time.perf_counter() - began
    await appender.close()
    return {
        "profiles_members": float(members),
        "profiles_full_sync_seconds": full,
        "profiles_changed_members": float(sync.sent_total - members),
        "profiles_changed_sync_seconds": changed,
    }


async def _sync(sync: Sync, appender: LocalAppender, later_ms: int = 0) -> None:
    now_ms = int(time.time() * 1000) + later_ms
    while sync.evaluate(now_ms):
        pass
    while (found := sync.to_send(now_ms)) is not None:
        sending, messages = found
        if messages:
            await appender.append([record for _, record in messages])
        sync.sent(sending, [person for person, _ in messages], now_ms)


async def _fill(folder: Path, events: int) -> None:
    appender = LocalAppender(folder, retention_seconds=1e9, retention_bytes=1 << 40)
    users = max(1, events // crowd.EVENTS_PER_USER)
    for group in crowd.records(events, users, int(time.time() * 1000)):
        await appender.append(group)
    await appender.close()
