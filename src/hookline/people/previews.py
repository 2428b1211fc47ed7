"""Tell how many people a definition would find, before anybody saves it: asked for by a file in the run folder, so that
the role need not run for it.

What the definition asks for is kept for as long as the preview is there, and read up from the journal's start where no
definition keeps it. Then everybody is judged, a slice at a time, while no sync has anybody to look at. Nobody is told.
What a preview came to is written down; how far it had come is not, so that after a crash it counts once more.

A preview of an audience may be compared with a second condition: everybody is judged by both at the same moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple, NewType

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.database.connection import Connection
from hookline.events import untyped
from hookline.people.definitions.definition import CompiledDefinition, as_json, ready_of
from hookline.people.definitions.feature import Purpose, windows_of
from hookline.people.ingest.ingest import Backfill, Ingest
from hookline.people.slice import Slice, everybody
from hookline.people.store.catalog import FeatureCatalog, Windows
from hookline.people.store.store import ProfileStore
from hookline.people.sync.sync import Sync
from hookline.telemetry.crashpoints import crash_point

FOLDER = "previews"
PREVIEWS_MAX = 10
"""At a time, finished ones included."""
KEPT_MS = 3_600_000
"""From when a preview is asked for until it is gone."""

ID_PREFIX = "prv_"
PreviewId = NewType("PreviewId", str)


class RequestedPreview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hold what is asked for and when (ms): either an audience or a computed trait, of which the id means nothing.

    ``against`` is what an audience is compared with. ``replaces`` is an earlier preview that nobody waits for any more.
    """

    asked_ms: int
    audience: Audience | None = None
    computed_trait: ComputedTrait | None = None
    against: Audience | None = None
    replaces: PreviewId | None = None

    @property
    def definition(self) -> Definition:
        """Return what it is a preview of; raise ValueError when it is of nothing."""
        found = self.audience or self.computed_trait
        if found is None:
            raise ValueError("neither an audience nor a computed trait")
        return found

    @property
    def definitions(self) -> list[Definition]:
        """Return everything that people are judged by for it."""
        return [self.definition, *([] if self.against is None else [self.against])]


class PreviewRequests:
    """At most ``PREVIEWS_MAX`` are taken; who asks looks first."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / FOLDER

    def ask(self, id: PreviewId, wish: RequestedPreview) -> None:
        """Ask for a preview."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = self._folder / f".{id}"
        descriptor = os.open(building, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(wish))
        building.rename(self._folder / id)

    def asked(self, now_ms: int) -> list[tuple[PreviewId, bytes]]:
        """Return what nobody has taken yet, as it was written, by id; what has waited too long is dropped."""
        found: list[tuple[PreviewId, bytes]] = []
        try:
            paths = sorted(self._folder.glob("[!.]*"))
            for path in paths:
                if path.stat().st_mtime * 1000 < now_ms - KEPT_MS:
                    path.unlink(missing_ok=True)
                else:
                    found.append((PreviewId(path.name), path.read_bytes()))
        except FileNotFoundError:  # taken meanwhile
            return found
        return found

    def since_ms(self, id: PreviewId) -> int | None:
        """Since when a preview waits to be taken, None for one that does not."""
        if not id.startswith(ID_PREFIX) or "/" in id:
            return None
        try:
            return int((self._folder / id).stat().st_mtime * 1000)
        except (OSError, ValueError):
            return None

    def done(self, id: PreviewId) -> None:
        """It was taken."""
        (self._folder / id).unlink(missing_ok=True)


PreviewState = Literal["reading", "counting", "done", "failed"]
OPEN = ("reading", "counting")


Side = Literal["kept", "added", "removed"]
"""Where somebody belongs who was found: to both conditions that are compared, only to the first, only to the second."""


class Sampled(NamedTuple):
    """Somebody who was found: the person's number and, for a computed trait, the value."""

    person: int
    value: object
    side: Side


class Preview(NamedTuple):
    """A preview: ``progress`` from 0 to 1; people looked at and found so far; for a failed one what to do.

    Where it is compared, ``compared`` were found by the second condition and ``kept`` by both.
    """

    id: PreviewId
    state: PreviewState
    progress: float
    people: int | None
    members: int | None
    detail: str | None
    compared: int | None
    kept: int | None
    sample: tuple[Sampled, ...]


class PreviewLog:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: PreviewId) -> Preview | None:
        """Return one preview, None when it is gone."""
        query = "SELECT id, state, progress, people, members, detail, compared, kept FROM previews WHERE id = ?"
        row = self._connection.execute(query, (id,)).fetchone()
        if row is None:
            return None
        query = "SELECT person, value, coalesce(side, 'added') FROM preview_sample WHERE preview = ? ORDER BY person"
        rows = self._connection.execute(query, (id,))
        sample = tuple(Sampled(person, untyped.decode(value), side) for person, value, side in rows)
        return Preview._make((*row, sample))

    def open(self, leaving_out: str = "") -> int:
        """Return how many are under way, one of them not counted."""
        query = "SELECT count(*) FROM previews WHERE state IN (?, ?) AND id <> ?"
        ((count,),) = self._connection.execute(query, (*OPEN, leaving_out)).fetchall()
        return int(count)


PEOPLE_PER_STEP = 5_000
SAMPLE_MAX = 10
TIME_MAX_MS = 50 * 60_000
"""For reading and counting; then it has failed."""
READING_SHARE = 0.9
"""Of the progress, where there is something to read up: judging everybody is the quicker part."""

UNREADABLE = "It cannot be read, perhaps since Hookline was updated meanwhile; ask again."
TOO_LONG = (
    f"It was not done within {TIME_MAX_MS // 60_000} minutes: the journal is long, or profiles are far behind. Save it "
    "without destinations instead: it reads stored events in the background, syncs nothing, and lists its members."
)


class _Open:
    """A preview under way: what it is of, and, once that is known, what it has to wait for."""

    def __init__(self, wish: RequestedPreview) -> None:
        self.definition: Definition = wish.definition
        self.against = wish.against
        self.deadline_ms = wish.asked_ms + TIME_MAX_MS
        self.ends: dict[int, int] | None = None
        """By partition up to where the journal has to be applied."""
        self.to_read = 0
        """Records at the begin."""
        self.progress = 0.0


class _Count:
    """Looking at everybody for one preview."""

    def __init__(
        self,
        id: PreviewId,
        ready: CompiledDefinition,
        against: CompiledDefinition | None,
        at_ms: int,
        slices: Iterator[list[int]],
    ) -> None:
        self.id, self.ready, self.against, self.at_ms, self.slices = id, ready, against, at_ms, slices
        self.people = 0
        self.counts: dict[Side, int] = {"kept": 0, "added": 0, "removed": 0}
        self.samples: dict[Side, list[tuple[int, str]]] = {"kept": [], "added": [], "removed": []}
        self._chance = Random(id)

    def found(self, person: int, value: str, side: Side) -> None:
        """Take somebody into a count, and into its sample with the same chance as everybody."""
        self.counts[side] += 1
        sample = self.samples[side]
        if len(sample) < SAMPLE_MAX:
            sample.append((person, value))
        elif (position := self._chance.randrange(self.counts[side])) < SAMPLE_MAX:
            sample[position] = (person, value)

    @property
    def members(self) -> int:
        """Return how many the definition found."""
        return self.counts["kept"] + self.counts["added"]

    @property
    def compared(self) -> int | None:
        """Return how many the second condition found; None where there is none."""
        return None if self.against is None else self.counts["kept"] + self.counts["removed"]


class Previews:
    """Used from the thread of the one writer."""

    def __init__(
        self,
        store: ProfileStore,
        registry: FeatureCatalog,
        ingest: Ingest,
        backfill: Backfill,
        sync: Sync,
        requests: PreviewRequests,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ingest = ingest
        self._backfill = backfill
        self._sync = sync
        self._requests = requests
        self._kept: dict[PreviewId, RequestedPreview] = {}
        self._open: dict[PreviewId, _Open] = {}
        """Of those that are kept, the ones under way."""
        self._count: _Count | None = None
        self.traits: Mapping[str, ComputedTrait] = {}
        """All computed traits by id."""
        for id, written, state in self._rows("SELECT id, definition, state FROM previews ORDER BY asked_at, id"):
            self._follow(PreviewId(id), written, state)

    def wanted(self) -> Windows:
        """Return the features that previews ask for, each with its window in milliseconds (None: no end)."""
        return windows_of([definition for each in self._kept.values() for definition in each.definitions])

    def follow(self, now_ms: int) -> bool:
        """Take up what is asked for and let go of what is over; return whether other features are asked for now."""
        before = set(self._kept)
        for id, written in self._requests.asked(now_ms):
            self._take(id, written, now_ms)
        for over in {each.replaces for each in self._kept.values() if each.replaces in self._kept}:
            self._forget(over)
        for id, each in list(self._open.items()):
            if now_ms >= each.deadline_ms:
                self._fail(id, TOO_LONG)
        self._drop(now_ms)
        return before != set(self._kept)

    def begin_again(self) -> None:
        """People were taken out of the store: count anew."""
        self._count = None

    def step(self, now_ms: int) -> bool:
        """Judge the next people of the preview that counts, once it can; return whether there were any."""
        # What fails leaves people out of the slices that are left: the count begins anew then.
        count, self._count = self._count or self._begin(now_ms), None
        if count is None:
            return False
        people = next(count.slices, [])
        if people:
            self._judge(count, people)
            self._write(count.id, "counting", self._counted(count), count.people, count.members)
            self._count = count
        else:
            self._finish(count)
        crash_point("profiles.preview_step")
        return True

    # taking up and letting go

    def _take(self, id: PreviewId, written: bytes, now_ms: int) -> None:
        query = (
            "INSERT INTO previews (id, asked_at, definition, state, progress) VALUES (?, ?, ?, 'reading', 0)"
            " ON CONFLICT DO NOTHING"
        )
        self._store.connection.execute(query, (id, now_ms, written))
        crash_point("profiles.preview_taken")
        self._requests.done(id)
        self._follow(id, written, "reading")

    def _follow(self, id: PreviewId, written: bytes, state: str) -> None:
        try:
            wish = msgspec.json.decode(written, type=RequestedPreview)
            opened = _Open(wish)
        except ValueError:
            self._fail(id, UNREADABLE)
            return
        self._kept[id] = wish
        if state in OPEN:
            self._open[id] = opened

    def _drop(self, now_ms: int) -> None:
        """Drop what was asked for too long ago, and of too many the oldest, those under way last."""
        query = f"SELECT id, asked_at <= ? FROM previews ORDER BY state IN {OPEN!r} DESC, asked_at DESC, id"
        rows = [(PreviewId(id), is_old) for id, is_old in self._rows(query, now_ms - KEPT_MS)]
        for number, (id, is_old) in enumerate(rows):
            if is_old or number >= PREVIEWS_MAX:
                self._forget(id)

    def _forget(self, id: PreviewId) -> None:
        self._end(id)
        with self._store.transaction() as execute:
            execute("DELETE FROM preview_sample WHERE preview = ?", (id,))
            execute("DELETE FROM previews WHERE id = ?", (id,))
        self._kept.pop(id, None)

    def _fail(self, id: PreviewId, detail: str) -> None:
        query = "UPDATE previews SET state = 'failed', detail = ?, people = NULL, members = NULL WHERE id = ?"
        self._store.connection.execute(query, (detail, id))
        self._end(id)

    def _end(self, id: PreviewId) -> None:
        self._open.pop(id, None)
        if self._count is not None and self._count.id == id:
            self._count = None

    # reading and counting

    def _begin(self, now_ms: int) -> _Count | None:
        """Return the next preview of which everything is read, if there is one; the others' progress is written
        down."""
        numbers = self._registry.for_previews() if self._open else {}
        for id, each in self._open.items():
            ready = ready_of(each.definition, self.traits)
            against = None if each.against is None else ready_of(each.against, self.traits)
            ready = ready if against is None else _with_needs_of(ready, against)
            if not ready.features <= numbers.keys():
                continue  # they are kept from the next look at the definitions on
            left = self._left(each, {numbers[feature] for feature in ready.features})
            if not left and self._sync.have_values(ready.needs):
                return _Count(id, ready, against, now_ms, everybody(self._store, PEOPLE_PER_STEP))
            progress = round(READING_SHARE * (1 - left / each.to_read), 2) if each.to_read else 0.0
            if progress != each.progress:
                each.progress = progress
                self._write(id, "reading", progress, None, None)
        return None

    def _left(self, preview: _Open, features: set[int]) -> int:
        if preview.ends is None:
            preview.ends = self._ingest.ends()
        left = self._ingest.lag(preview.ends) + self._backfill.left(features)
        preview.to_read = max(preview.to_read, left)
        return left

    def _judge(self, count: _Count, people: list[int]) -> None:
        ready = count.ready
        here = Slice(self._store, people, ready, self._sync.numbers, in_a_row=True, purpose=Purpose.PREVIEWS)
        for person, facts in here.facts():
            value, _ = ready.judge(facts, count.at_ms)
            text = ready.empty if value is None else as_json(value)
            is_found = text != ready.empty
            if count.against is not None and count.against.judge(facts, count.at_ms)[0]:
                count.found(person, text, "kept" if is_found else "removed")
            elif is_found:
                count.found(person, text, "added")
        count.people += len(people)

    def _counted(self, count: _Count) -> float:
        before = READING_SHARE if self._open[count.id].to_read else 0.0
        share = count.people / max(count.people, self._ingest.person_count)
        return round(before + (1 - before) * share, 2)

    def _finish(self, count: _Count) -> None:
        with self._store.transaction():
            self._store.connection.executemany(
                "INSERT INTO preview_sample (preview, person, value, side) VALUES (?, ?, ?, ?)",
                [(count.id, *each, side) for side, sample in count.samples.items() for each in sample],
            )
            self._write(count.id, "done", 1.0, count.people, count.members)
            if count.against is not None:
                query = "UPDATE previews SET compared = ?, kept = ? WHERE id = ?"
                self._store.connection.execute(query, (count.compared, count.counts["kept"], count.id))
        self._end(count.id)

    def _write(self, id: PreviewId, state: str, progress: float, people: int | None, members: int | None) -> None:
        query = "UPDATE previews SET state = ?, progress = ?, people = ?, members = ? WHERE id = ?"
        self._store.connection.execute(query, (state, progress, people, members, id))

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._store.connection.execute(query, values).fetchall()


def _with_needs_of(ready: CompiledDefinition, other: CompiledDefinition) -> CompiledDefinition:
    """Return a definition for whose judging everything is loaded that the other one looks at as well."""
    return ready._replace(
        features=ready.features | other.features,
        needs=ready.needs | other.needs,
        asks_traits=ready.asks_traits or other.asks_traits,
        asks_groups=ready.asks_groups or other.asks_groups,
    )
