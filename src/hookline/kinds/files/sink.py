"""Files of events in a folder or a bucket, each event once.

A write goes in this order: a note of what will be written, the files, the manifest. What the manifest names is whole,
and what manifests cover is not written again. After a crash between the first two the note is found, and what it names
and no manifest does is taken away before anything else is written, so that even who reads all files there are meets no
event twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookline.events.timestamps import iso
from hookline.kinds.catalog import missing_extra
from hookline.kinds.files.erasure import Erasure, forget
from hookline.kinds.files.formats import encode, suffix_of
from hookline.kinds.files.manifests import Covered, File, Manifest, Manifests, covers_of, packed
from hookline.kinds.files.rows import FilePlan, plan_files
from hookline.kinds.files.store import FolderStore, Store
from hookline.kinds.model import Json
from hookline.kinds.sink import SinkContext, SinkEvent, SinkFailed, Verdict, counted
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

OWNER = "_hookline/owner.json"
PENDING = "_hookline/pending"
CHECK = "_hookline/check"
COMMITS_MAX = 20
"""How often a write looks again because other processes committed first."""
EARLIER = "erased by an earlier try; its manifest says how many rows"
BUSY = "other processes commit files all the time; run fewer deliver processes, or gather for longer"
ACCEPTED = Verdict(True)


class _Pending(msgspec.Struct, frozen=True):
    """Hold what is being written for a partition."""

    files: list[str]
    covers: dict[int, Covered]


class _Owner(msgspec.Struct, frozen=True):
    destination: str


class FilesSink:
    """Writes the events of one destination."""

    def __init__(
        self,
        context: SinkContext,
        store: Store,
        format: str,
        compression: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._context = context
        self._store = store
        self._format, self._compression = format, compression
        self._now_ms = now_ms
        self._settled: set[int] = set()
        """Partitions of which no earlier process has left anything behind."""
        with _Failures(), store.lock():
            self._own()
            self.manifests = Manifests(store, uuid.uuid4().hex[:12])

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        """Write what is not written yet; return that all of it is, or raise SinkFailed."""
        with _Failures(), self._store.lock():
            for _ in range(COMMITS_MAX):
                self.manifests.refresh()
                fresh = self._fresh(events)
                remark = self._commit(fresh) if fresh else ""
                if remark is not None:
                    forget(self._store, self.manifests, events)
                    return _verdicts(events, fresh, remark)
                self._settled.clear()  # others were first: what was written may be theirs by now
        raise SinkFailed(BUSY)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _fresh(self, events: Sequence[SinkEvent]) -> list[SinkEvent]:
        by_partition: dict[int, dict[int, SinkEvent]] = {}
        for event in events:
            by_partition.setdefault(event.partition, {})[event.offset] = event
        fresh: list[SinkEvent] = []
        for partition, members in by_partition.items():
            if partition not in self._settled:
                self._settle(partition)
                self._settled.add(partition)
            covered = self.manifests.covered(
                partition, {offset: event.received_at_ms for offset, event in members.items()}
            )
            fresh += [event for offset, event in members.items() if offset not in covered]
        return fresh

    def _commit(self, events: Sequence[SinkEvent]) -> str | None:
        """Write events; return what is said of the delete messages among them, None when others committed first."""
        erasure = Erasure(self._store, self.manifests, events)
        plans = plan_files(erasure.left, suffix_of(self._format, self._compression))
        covers = covers_of((event.partition, event.offset, event.received_at_ms) for event in events)
        if plans:
            self._note(plans, covers)
            crash_point("files.noted")
        data = {plan.path: encode(plan.rows, self._format, self._compression) for plan in plans}
        self._store.put_all(data)
        erased = erasure.carry_out()
        crash_point("files.all_written")
        manifest = self._manifest(
            rows=len(erasure.left),
            files=[_file(plan, data[plan.path]) for plan in plans],
            covers=covers,
            requests=erasure.requests,
            erased=erased,
            rows_erased=erasure.dropped + sum(each.rows for each in erased),
        )
        if not self.manifests.commit(manifest):
            return None
        crash_point("files.committed")
        if manifest.requests:
            logger().info(
                "files_erased",
                destination=self._context.destination,
                requests=[request.message_id for request in manifest.requests],
                files=len(erased),
                rows=manifest.rows_erased,
            )
        self.manifests.seal()
        return _remark(manifest)

    def _note(self, plans: Sequence[FilePlan], covers: Mapping[int, Covered]) -> None:
        notes: dict[str, bytes] = {}
        for partition in {plan.partition for plan in plans}:
            paths = [plan.path for plan in plans if plan.partition == partition]
            note = _Pending(paths, {partition: covers[partition]})
            notes[f"{PENDING}/{partition}.json"] = msgspec.json.encode(note)
        self._store.put_all(notes)

    def _settle(self, partition: int) -> None:
        """Take away what a process has written for a partition without getting as far as its manifest."""
        data = self._store.get(f"{PENDING}/{partition}.json")
        if data is None:
            return
        note = msgspec.json.decode(data, type=_Pending)
        first, last = note.covers[partition].span
        for _ in range(COMMITS_MAX):
            named = self.manifests.named(partition, first, last)
            left = [path for path in note.files if path not in named]
            # That process may only be slow. With an empty manifest in its way it cannot name what is gone.
            if not left or self.manifests.commit(self._manifest(rows=0, files=[], covers={})):
                self._store.delete_all(left)
                return
            self.manifests.refresh()
        raise SinkFailed(BUSY)

    def _manifest(self, **fields: Any) -> Manifest:
        write, at = uuid.uuid4().hex, iso(self._now_ms())
        return Manifest(write=write, at=at, destination=self._context.destination, **fields)

    def _own(self) -> None:
        owner = _owner_of(self._store)
        if owner is None:
            self._store.create(OWNER, msgspec.json.encode(_Owner(self._context.destination)))
            owner = _owner_of(self._store)
        _check_owner(owner, self._context.destination)


class _Failures:
    """Turns what a folder raises into SinkFailed."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise SinkFailed for an error of the machine."""
        if isinstance(error, OSError):
            raise SinkFailed(f"the folder cannot be written: {error.strerror or error}") from None
        if isinstance(error, msgspec.DecodeError):
            raise SinkFailed(f"a file below _hookline cannot be read ({error}); put it back from a copy") from None


def place_of(destination: str, settings: Mapping[str, Json]) -> str:
    """Return the folder, within the data folder, or the bucket; with the prefix."""
    prefix = str(settings.get("prefix") or "").strip("/")
    if settings.get("where") != "s3":
        return "/".join(each for each in ("files", destination, prefix) if each)
    endpoint = urlsplit(str(settings.get("endpoint") or ""))
    begin = f"{endpoint.scheme}://{endpoint.netloc.rpartition('@')[2]}/" if endpoint.netloc else "s3://"
    return "/".join(each for each in (f"{begin}{settings.get('bucket')}", prefix) if each)


def check_sink(context: SinkContext, settings: Mapping[str, Json]) -> None:
    """Write a small file and take it away again; raise SinkFailed. A place that nobody owns is nobody's afterwards."""
    store = _store_of(context, settings)
    try:
        with _Failures():
            owner = _owner_of(store)
            _check_owner(owner, context.destination)
            path = f"{CHECK}-{uuid.uuid4().hex}"
            store.put_all({path: b""})
            store.delete_all([path])
            if owner is None:
                store.leave_nothing()
    finally:
        store.close()


def open_sink(context: SinkContext, settings: Mapping[str, Json]) -> FilesSink:
    """Return the sink of a destination; raise SinkFailed when the extra is missing or the place cannot be used."""
    store = _store_of(context, settings)
    try:
        return FilesSink(context, store, str(settings["format"]), str(settings["compression"]))
    except BaseException:
        store.close()
        raise


def _store_of(context: SinkContext, settings: Mapping[str, Json]) -> Store:
    if (missing := missing_extra("files")) is not None:
        raise SinkFailed(missing)
    if settings.get("where") == "s3":
        absent = [name for name in ("bucket", "accessKey", "secretKey") if not settings.get(name)]
        if absent:
            raise SinkFailed(f"files in S3 need settings.{absent[0]}; add it")
        from hookline.kinds.files.bucket import BucketStore  # here: its library is optional

        return BucketStore(context, settings)
    with _Failures():
        return FolderStore(context.folder, str(settings.get("prefix") or "").strip("/"))


def _owner_of(store: Store) -> str | None:
    """Return the destination that writes its files there."""
    data = store.get(OWNER)
    return None if data is None else msgspec.json.decode(data, type=_Owner).destination


def _check_owner(owner: str | None, destination: str) -> None:
    if owner not in (None, destination):
        raise SinkFailed(f"the destination {owner!r} writes its files there; choose another prefix")


def _verdicts(events: Sequence[SinkEvent], fresh: Sequence[SinkEvent], remark: str) -> list[Verdict]:
    """Return that all is written, with a remark where a person was erased; a delete message that an earlier process
    carried out has it in a manifest."""
    new = {(each.partition, each.offset) for each in fresh}
    now, earlier = Verdict(True, remark=remark), Verdict(True, remark=EARLIER)
    return [
        ACCEPTED if each.fields.get("type") != "delete" else now if (each.partition, each.offset) in new else earlier
        for each in events
    ]


def _remark(manifest: Manifest) -> str:
    messages, files = len(manifest.requests), len(manifest.erased)
    rows = counted(manifest.rows_erased, "row")
    said = f"{rows} erased, {counted(files, 'file')} written anew" if manifest.rows_erased else "no rows were there"
    return said if messages <= 1 else f"{said}, for {messages} delete messages together"


def _file(plan: FilePlan, data: bytes) -> File:
    return File(
        path=plan.path,
        rows=len(plan.rows),
        bytes=len(data),
        partition=plan.partition,
        first=plan.first,
        last=plan.last,
        people=packed(plan.people),
    )
