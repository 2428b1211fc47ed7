"""The manifests: which files are whole, and which events they hold.

Each write ends with one manifest, numbered in order. It is created, never replaced, so that of two processes that want
one number only one gets it and the other reads first what came before. What a manifest covers is written once: the same
events that come again, after a crash or by a replay, are found here.

Memory is bounded: of the manifests since the last index object the spans are known, of all others the spans of the
index objects that list them; exact offsets are read when an event falls within a span.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, TypeVar

import msgspec

from hookline.kinds.files.rows import HASH_BYTES
from hookline.kinds.files.store import Store
from hookline.kinds.sink import SinkFailed

MANIFESTS = "_hookline/manifests"
INDEX = "_hookline/index"
FORMAT = 1
SEALED = 500
"""Manifests that one index object lists."""
SEAL_LATE = 20
"""An index object is made so many manifests later: without fences another process may still be writing one of them."""
MANIFESTS_KEPT = 256
INDEXES_KEPT = 8
NUMBER_DIGITS = 20

Span = tuple[int, int]
K = TypeVar("K")
V = TypeVar("V")


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that are unknown are left alone: a newer version may write them."""


class File(_Stored, frozen=True, kw_only=True):
    """One file that is whole; ``people`` are the hashes of the ids in it, packed."""

    path: str
    rows: int
    bytes: int
    partition: int
    first: int
    last: int
    people: str = ""


class Covered(_Stored, frozen=True, kw_only=True):
    """Offsets of a partition: a first one, how many follow each other, how many are left out, how many follow …, and
    when the first and the last of them were received."""

    offsets: list[int]
    received: Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]

    def runs(self) -> Iterator[Span]:
        """Yield the first and last offset of each run."""
        first = self.offsets[0]
        for index in range(1, len(self.offsets), 2):
            count = self.offsets[index]
            yield first, first + count - 1
            if index + 1 < len(self.offsets):
                first += count + self.offsets[index + 1]

    @property
    def span(self) -> Span:
        """Return the first and the last offset."""
        return self.offsets[0], self.offsets[0] + sum(self.offsets[1:]) - 1


class Erased(_Stored, frozen=True, kw_only=True):
    """A file that was written anew without somebody's rows."""

    path: str
    rows: int


class Request(_Stored, frozen=True, kw_only=True):
    """The ``delete`` message that asked for it: by its place and its id, not by whom it is about."""

    partition: int
    offset: int
    message_id: str


class Manifest(_Stored, frozen=True, kw_only=True, omit_defaults=True):
    """Hold what one write did. ``write`` tells it from others that wanted its number.

    Of an erasure ``requests`` says who asked, and ``erased`` which files have fewer rows since.
    """

    format: int = FORMAT
    write: str
    at: str
    destination: str
    rows: int
    files: list[File]
    covers: dict[int, Covered]
    requests: list[Request] = []
    erased: list[Erased] = []
    rows_erased: int = 0


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A manifest as an index object lists it: its name, the span of each partition, the hashes of ids in its files."""

    name: str
    spans: dict[int, Span]
    people: str


class _Chunk(msgspec.Struct, frozen=True, array_like=True):
    """An index object as later ones list it: its name, and the span of each partition."""

    name: str
    spans: dict[int, Span]


class _Index(_Stored, frozen=True, kw_only=True):
    format: int = FORMAT
    chunks: list[_Chunk]
    manifests: list[_Entry]


class Manifests:
    """All manifests of one place."""

    def __init__(self, store: Store, writer: str) -> None:
        self._store = store
        # Without fences two processes could take one number: then each has names of its own.
        self._ending = ".json" if store.is_fenced else f"-{writer}.json"
        self._chunks: list[_Chunk] = []
        self._recent: list[_Entry] = []
        self._last = ""
        self._manifests: OrderedDict[str, Manifest] = OrderedDict()
        self._indexes: OrderedDict[str, _Index] = OrderedDict()
        self._open()

    def refresh(self) -> list[Manifest]:
        """Read what others have written since; return it."""
        # Names of one number may come late where there are no fences; what is known is not read twice.
        after = self._last if self._store.is_fenced else _name(max(0, self._number - SEAL_LATE), "")
        known = {entry.name for entry in self._recent}
        found = []
        for name in self._store.names(MANIFESTS, after):
            if name not in known and name.endswith(".json"):
                manifest = self._manifest(name)
                self._note(name, manifest)
                found.append(manifest)
        return found

    def commit(self, manifest: Manifest) -> bool:
        """Write a manifest; return False when another process took its number: refresh, and look again."""
        name = _name(self._number + 1, self._ending)
        created = self._store.create(f"{MANIFESTS}/{name}", msgspec.json.encode(manifest))
        # The answer to a first try may have been lost: then the one that is there is our own.
        if not created and self._manifest(name).write != manifest.write:
            return False
        self._keep(self._manifests, name, manifest, MANIFESTS_KEPT)
        self._note(name, manifest)
        return True

    def covered(self, partition: int, received: Mapping[int, int]) -> set[int]:
        """Return which offsets of a partition are written; ``received`` says when each was received.

        Raises SinkFailed when other events have these offsets: they are of another journal.
        """
        first, last = min(received), max(received)
        found: set[int] = set()
        for entry in self._entries_within(partition, first, last):
            covered = self._manifest(entry.name).covers[partition]
            runs = list(covered.runs())
            starts = [run[0] for run in runs]
            earliest, latest = covered.received
            for offset, at_ms in received.items():
                index = bisect_right(starts, offset) - 1
                if index < 0 or offset > runs[index][1]:
                    continue
                if not earliest <= at_ms <= latest:
                    raise SinkFailed(
                        f"the files there hold other events at offset {offset} of partition {partition}, as after the"
                        " data folder was made anew; choose another prefix"
                    )
                found.add(offset)
        return found

    def named(self, partition: int, first: int, last: int) -> set[str]:
        """Return the paths that manifests name which cover something between two offsets."""
        entries = self._entries_within(partition, first, last)
        return {file.path for entry in entries for file in self._manifest(entry.name).files}

    def holding(self, hashes: Iterable[bytes]) -> Iterator[File]:
        """Yield the files that may hold rows of somebody."""
        wanted = set(hashes)
        for entry in self._entries():
            if wanted & unpacked(entry.people):
                for file in self._manifest(entry.name).files:
                    if wanted & unpacked(file.people):
                        yield file

    def seal(self) -> None:
        """List manifests in an index object when there are enough of them."""
        # Where there are no fences they were not read in the order of their names.
        recent = sorted(self._recent, key=lambda entry: entry.name)
        due = [entry for entry in recent if _number_of(entry.name) <= self._sealed + SEALED]
        if self._number < self._sealed + SEALED + SEAL_LATE:
            return
        name = _name(self._sealed + SEALED, ".json")
        self._store.put_all(
            {f"{INDEX}/{name}": msgspec.json.encode(_Index(chunks=self._chunks, manifests=due))},
        )
        self._chunks.append(_Chunk(name, _union(entry.spans for entry in due)))
        self._recent = recent[len(due) :]

    @property
    def _sealed(self) -> int:
        return _number_of(self._chunks[-1].name) if self._chunks else 0

    @property
    def _number(self) -> int:
        return _number_of(self._last) if self._last else self._sealed

    def _open(self) -> None:
        names = self._store.names(INDEX, "")
        if names:
            index = self._index(names[-1])
            self._chunks = [*index.chunks, _Chunk(names[-1], _union(entry.spans for entry in index.manifests))]
            self._last = index.manifests[-1].name if index.manifests else ""
        self.refresh()

    def _entries(self) -> Iterator[_Entry]:
        for chunk in self._chunks:
            yield from self._index(chunk.name).manifests
        yield from list(self._recent)

    def _entries_within(self, partition: int, first: int, last: int) -> Iterator[_Entry]:
        for chunk in self._chunks:
            if _overlaps(chunk.spans.get(partition), first, last):
                for entry in self._index(chunk.name).manifests:
                    if _overlaps(entry.spans.get(partition), first, last):
                        yield entry
        for entry in self._recent:
            if _overlaps(entry.spans.get(partition), first, last):
                yield entry

    def _note(self, name: str, manifest: Manifest) -> None:
        people = packed(frozenset().union(*(unpacked(file.people) for file in manifest.files)))
        self._recent.append(_Entry(name, {p: covered.span for p, covered in manifest.covers.items()}, people))
        self._last = max(self._last, name)

    def _manifest(self, name: str) -> Manifest:
        found = self._manifests.get(name)
        if found is None:
            found = self._read(f"{MANIFESTS}/{name}", Manifest)
        self._keep(self._manifests, name, found, MANIFESTS_KEPT)
        return found

    def _index(self, name: str) -> _Index:
        found = self._indexes.get(name)
        if found is None:
            found = self._read(f"{INDEX}/{name}", _Index)
        self._keep(self._indexes, name, found, INDEXES_KEPT)
        return found

    def _read(self, path: str, type: type[V]) -> V:
        data = self._store.get(path)
        try:
            return msgspec.json.decode(data or b"", type=type)
        except msgspec.DecodeError as error:
            raise SinkFailed(f"{path} cannot be read ({error}); put it back from a copy") from None

    @staticmethod
    def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
        kept[key] = value
        kept.move_to_end(key)
        while len(kept) > most:
            kept.popitem(last=False)


def covers_of(places: Iterable[tuple[int, int, int]]) -> dict[int, Covered]:
    """Return what a manifest says of events, each given by partition, offset and when it was received."""
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for partition, offset, at_ms in places:
        by_partition.setdefault(partition, []).append((offset, at_ms))
    return {
        partition: Covered(
            offsets=_run_lengths(sorted({offset for offset, _ in pairs})),
            received=[min(at_ms for _, at_ms in pairs), max(at_ms for _, at_ms in pairs)],
        )
        for partition, pairs in by_partition.items()
    }


def packed(hashes: frozenset[bytes]) -> str:
    """Return hashes as a manifest has them: sorted, one after the other, in base64."""
    return base64.b64encode(b"".join(sorted(hashes))).decode()


def unpacked(text: str) -> frozenset[bytes]:
    """Return the hashes that a text holds."""
    data = base64.b64decode(text)
    return frozenset(data[index : index + HASH_BYTES] for index in range(0, len(data), HASH_BYTES))


def _run_lengths(offsets: Sequence[int]) -> list[int]:
    found = [offsets[0], 1]
    for before, offset in pairwise(offsets):
        if offset == before + 1:
            found[-1] += 1
        else:
            found += [offset - before - 1, 1]
    return found


def _union(spans: Iterable[dict[int, Span]]) -> dict[int, Span]:
    found: dict[int, Span] = {}
    for each in spans:
        for partition, (first, last) in each.items():
            known = found.get(partition, (first, last))
            found[partition] = min(known[0], first), max(known[1], last)
    return found


def _overlaps(span: Span | None, first: int, last: int) -> bool:
    return span is not None and span[0] <= last and first <= span[1]


def _name(number: int, ending: str) -> str:
    return f"{number:0{NUMBER_DIGITS}d}{ending}"


def _number_of(name: str) -> int:
    return int(name[:NUMBER_DIGITS])
