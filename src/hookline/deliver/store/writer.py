"""The deliver database: checkpoints, retry rows, dead letters and outcomes. Its one writer is the deliver role.

One transaction per checkpoint keeps positions, retries and outcomes in step. ``synchronous=NORMAL`` is enough: a power
cut may take back the last checkpoints as a whole, never reorder them, and the journal still has the events.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hookline.database.connect import commit_mark, connect, empty_log, insert_many, is_file, overwrite_deleted
from hookline.database.connection import Cursor, overwriting, replacing, transaction
from hookline.database.location import DatabaseLocation
from hookline.deliver.cluster.fence import Fence, check, listed
from hookline.deliver.lanes.delivery import ALL_URLS
from hookline.deliver.store.batch import Batch, BlockRow, ErasureRow, Requeue
from hookline.deliver.store.retry_rows import RetryRows, answers, bring_near, counts, moved_urls
from hookline.deliver.store.shared_answers import erase_shared_answers
from hookline.outcomes.outcome import FINAL, RECEIVER_STATUSES
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.outcomes.reader import NEVER_MS, DeliverReader
from hookline.replays.dead_letters import DEAD_LETTERS_MAX
from hookline.replays.offset_set import encode_offset_sets

USAGE_DAYS_KEPT = 400
"""More than a year, so that a month can be compared with the same one a year before."""
RANGES_KEPT_MS = 30 * 86_400_000
"""Before the newest one: records of lost or discarded ranges whose events the journal no longer keeps."""
NEWS_KEPT_MAX = 1_000
"""Sentences of sinks, all destinations together: control reads them within seconds."""
ANSWERS_KEPT_MAX = 100_000
"""Failed attempts per destination of which the receiver's answer is kept: it may be many times as large as the event.
The rows stay: they tell an event's status where its dead letter made room for newer ones."""
ATTEMPTS_PER_TRIM = 1_000
"""New ones of a destination before older answers are looked for."""
ANSWERS_PER_TRIM = 10_000
"""Most that one checkpoint drops of a destination, in a tenth of a second; more than can fail in one millisecond."""
SMALL_BLOCK_BYTES = 8 * 1024
EXCHANGE_MS_MAX = 120_000
"""No result of a block is of a request that began longer before it."""

_RETRY_KEY = ("lane", "partition", '"offset"')
_RETRY_REST = ("attempt", "first_at", "due", "urls")
_ATTEMPT = (
    *("partition", '"offset"', "lane", "destination", "number", "url", "at"),
    *("outcome", "http_status", "error", "milliseconds", "next_at", "head", "cause"),
)
_PUT_REMARK = replacing("remarks", ("lane", "partition", '"offset"'), ("remark",))
_ADD_USAGE = (
    "ON CONFLICT (day, source)"
    " DO UPDATE SET events = usage.events + excluded.events, filtered = usage.filtered + excluded.filtered"
)
_ADD_DELIVERED = (
    "ON CONFLICT (destination, partition) DO UPDATE SET delivered = delivered.delivered + excluded.delivered"
)
_PUT_LANE = replacing("lanes", ("lane", "partition"), ("next_offset", "state", "blob"))
_PUT_CHECKPOINT = replacing("checkpoints", ("partition",), ("next_offset", "version", "blob"))
_PUT_VERSION = replacing("versions_in_force", ("partition", "version"), ('"offset"',))
_OF_ERASURE = 'request = ?2 AND asked_at = ?3 AND "round" = ?4'
_BY_RECEIVER = (
    " AND (http_status IS NULL OR http_status NOT BETWEEN 400 AND 499 OR http_status IN"
    f" ({', '.join(map(str, sorted(RECEIVER_STATUSES)))}))"
)
"""Of dead letters: those for which the receiver is to blame, as ``refuses_event`` says of one."""
_PUT_ACTION = replacing("dead_letter_actions", ("id",), ("last", "discarded"))


class DeliverStore:
    """Reads on the event loop, one writing connection used by the checkpoint's thread."""

    def __init__(self, location: DatabaseLocation, fence: Fence | None = None) -> None:
        """With a fence only rows of partitions that it names are acted on, and written only while they are owned."""
        self._fence = fence
        self._log = location.with_name(location.name + "-wal") if isinstance(location, Path) else None
        # PostgreSQL has no ``sync`` of its own to be asked for later.
        self._write = connect(location, synchronous="FULL" if self._log is None else "NORMAL")
        self._read = connect(location, read_only=True)
        if is_file(self._write):
            # A checkpoint of the log inside a commit is what makes commits slow; larger steps, and off the event loop.
            self._write.execute("PRAGMA wal_autocheckpoint = 4000")
            self._write.execute("PRAGMA temp_store = MEMORY")
        # What is deleted may be about a person: nothing of it stays in free pages.
        overwrite_deleted(self._write)
        self._mark = commit_mark(self._write)
        self._oldest_usage: int | None = None
        self._untrimmed: Counter[str] = Counter()
        """Attempts written since older answers were dropped, by destination."""
        self._trimmed_ms: dict[str, int] = {}
        """Up to when a destination's attempts have lost their answers."""
        self.reader = DeliverReader.on(self._read)
        """What was saved, to be read on the event loop."""
        self.rows = RetryRows(self._read, fence)
        """The retry rows, to be read on the event loop."""

    def bring_near(self, now_ms: int, latest_ms: int) -> None:
        """``bring_near`` of all rows."""
        bring_near(self._write, now_ms, latest_ms)

    def look(self, batch: Batch) -> None:
        """Answer what the batch asks of retry rows, once it is written; on its thread."""
        taken = None if self._fence is None else listed(batch.epochs)
        batch.found = answers(self._write, batch.looks, taken)
        if batch.counts:
            batch.counted = counts(self._write, batch.counts, taken)

    def commit(self, batch: Batch) -> None:
        """Write a batch in one transaction; on any error, such as Fenced, nothing of it is written, but after
        DatabaseAway it may be: given again it is written once."""
        with transaction(self._write):
            # In its turn: where the last answer was lost, that commit may be under way until the turn comes.
            if self._mark is not None and self._mark.holds(batch):
                return
            cursor = self._write.cursor()
            if self._fence is not None:
                check(self._write, batch.epochs)
            self._write_batch(cursor, batch)
            self._untrimmed.update(row.destination for row in batch.attempts)
            trimmed_ms = self._trim_answers(cursor)
            if self._mark is not None:
                self._mark.put(cursor, batch)
        self._trimmed_ms.update(trimmed_ms)

    def _write_batch(self, cursor: Cursor, batch: Batch) -> None:
        many = cursor.executemany
        mine = "" if self._fence is None else f" AND partition IN {listed(batch.epochs)}"
        many("UPDATE retries SET first_at = first_at + ? WHERE lane = ? AND partition = ?", batch.shifts)
        nearer = f"CASE WHEN due >= {NEVER_MS} THEN ? ELSE ? END"
        many(f"UPDATE retries SET due = {nearer} WHERE lane = ? AND due > ?{mine}", batch.reordered)
        for lane, partition, moved in batch.moved_urls:
            many(f"UPDATE retries SET urls = {moved_urls(moved)} WHERE lane = ? AND partition = ?", [(lane, partition)])
        many('DELETE FROM retries WHERE lane = ? AND partition = ? AND "offset" = ?', batch.settled)
        retries = list(batch.retries.values())
        insert_many(self._write, "retries", _RETRY_KEY + _RETRY_REST, retries, overwriting(_RETRY_KEY, _RETRY_REST))
        insert_many(self._write, "attempts", _ATTEMPT, batch.attempts)
        many(_PUT_REMARK, batch.remarks)
        if batch.news:
            many("INSERT INTO sink_news (destination, at, sentence) VALUES (?, ?, ?)", batch.news)
            many("DELETE FROM sink_news WHERE id <= (SELECT max(id) FROM sink_news) - ?", [(NEWS_KEPT_MAX,)])
        many(
            'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status,'
            " attempts, at, outcome, http_status, error, event, first_at, cause)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            batch.dead_letters,
        )
        batch.requeued = {}
        for requeue in batch.requeues:
            lane = requeue.lane
            urls = batch.requeue_urls.get(lane, "[]")
            found = self._requeue(cursor, requeue, urls, mine, keep_dead_letters=lane in batch.replays)
            batch.requeued[lane] = batch.requeued.get(lane, 0) + found
        many(
            "INSERT INTO ranges (lane, destination, partition, first_offset, last_offset, status, at, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            list(self._ranges(cursor, batch)),
        )
        many(_PUT_LANE, batch.lanes.values())
        many("DELETE FROM lanes WHERE lane = ? AND partition = ?", batch.lanes_gone)
        for table in ("lanes", "retries"):
            many(f"DELETE FROM {table} WHERE lane = ?{mine}", [(lane,) for lane in batch.lanes_ended])
        many(_PUT_CHECKPOINT, batch.checkpoints)
        for block in batch.blocks:
            self._add_block(cursor, block, batch.recovered_ms)
        if batch.delivered:
            self._add_delivered(batch)
        many('INSERT INTO lane_filters (lane, partition, "offset", version, at) VALUES (?, ?, ?, ?, ?)', batch.filters)
        if batch.usage:
            self._add_usage(cursor, batch.usage, batch.today)
        many(_PUT_VERSION, batch.versions)
        self._write_replays(cursor, batch)
        for erasure in batch.erasures:
            self._erase(cursor, erasure)
        many(
            f"UPDATE erasures SET done_at = ?1 WHERE {_OF_ERASURE} AND"
            f" (SELECT count(*) FROM erased_parts WHERE {_OF_ERASURE}) >= ?5",
            batch.erased,
        )
        if batch.dead_letters:
            self._trim_dead_letters(cursor, {row.destination for row in batch.dead_letters})

    def _ranges(self, cursor: Cursor, batch: Batch) -> Iterator[tuple[object, ...]]:
        """Yield the ranges as they are written, those that there is something in."""
        query = 'SELECT min("offset") FROM retries WHERE lane = ? AND partition = ?'
        for row in batch.ranges:
            first = row.first_offset
            if row.with_retries:
                (found,) = cursor.execute(query, (row.lane, row.partition)).fetchone()
                first = first if found is None else min(first, found)
            if first <= row.last_offset:
                yield row._replace(first_offset=first)[:-1]

    def _add_delivered(self, batch: Batch) -> None:
        """Count in the transaction that saves the results: the counts survive a crash exactly as those do."""
        since_ms = batch.blocks[0].at_ms
        rows = [(*key, count, since_ms) for key, count in batch.delivered.items()]
        columns = ("destination", "partition", "delivered", "since")
        insert_many(self._write, "delivered", columns, rows, _ADD_DELIVERED)

    def _add_usage(self, cursor: Cursor, usage: dict[tuple[int, str, int], list[int]], today: int) -> None:
        totals: dict[tuple[int, str], list[int]] = {}
        for (day, source, _), (events, filtered) in usage.items():
            total = totals.setdefault((day, source), [0, 0])
            total[0] += events
            total[1] += filtered
        rows = [(*key, *total) for key, total in totals.items() if total[0]]
        insert_many(self._write, "usage", ("day", "source", "events", "filtered"), rows, _ADD_USAGE)
        oldest = min(today, *(day for day, _, _ in usage)) - USAGE_DAYS_KEPT
        if oldest != self._oldest_usage:  # once a day; after a rollback, the next day
            self._oldest_usage = oldest
            cursor.execute("DELETE FROM usage WHERE day < ?", (oldest,))

    def _write_replays(self, cursor: Cursor, batch: Batch) -> None:
        """Write how far replays have come, dead letters they settled, and dead letters that people discard.

        Counts are added in the transaction that saves the positions they are counted from, so they survive a crash
        exactly as those do.
        """
        many = cursor.executemany
        delivered = Counter(row.lane for row in batch.replayed)
        dead = Counter(letter.lane for letter in batch.dead_letters if letter.lane in batch.replays)
        many(
            "INSERT INTO replays (lane, state, delivered, failed, started_at, updated_at, ended_at, reason)"
            " VALUES (?1, ?2, ?6, ?7, ?3, ?3, ?4, ?5) ON CONFLICT (lane) DO UPDATE SET"
            " state = CASE WHEN replays.state = 'running' THEN excluded.state ELSE replays.state END,"
            " delivered = replays.delivered + excluded.delivered, failed = replays.failed + excluded.failed,"
            " updated_at = excluded.updated_at, ended_at = coalesce(excluded.ended_at, replays.ended_at),"
            " reason = coalesce(excluded.reason, replays.reason)",
            [
                (*row, delivered[row.lane], dead[row.lane] - batch.requeued.get(row.lane, 0))
                for row in batch.replays.values()
            ],
        )
        many(
            "UPDATE replays SET state = 'done', ended_at = ?1, updated_at = ?1 WHERE lane = ?2 AND state = 'running'"
            " AND (SELECT count(*) FROM lanes WHERE lane = ?2 AND state = 'finished' AND partition < ?3) >= ?3",
            batch.parts_done,
        )
        many(
            'DELETE FROM dead_letters WHERE partition = ? AND "offset" = ? AND destination = ?',
            [(row.partition, row.offset, row.destination) for row in batch.replayed],
        )
        # A letter of a replay takes the place of the one that it was to settle; a later one of another lane stays too.
        of_event = 'partition = ?1 AND "offset" = ?2 AND destination = ?3'
        its_own = f"SELECT max(id) FROM dead_letters WHERE {of_event} AND lane = ?4"
        many(
            f"DELETE FROM dead_letters WHERE {of_event} AND id < ({its_own})",
            [(row.partition, row.offset, row.destination, row.lane) for row in batch.dead_letters if row.lane in dead],
        )
        # Where deliver is many processes each of them is told; one carries it out.
        row = cursor.execute("SELECT last FROM dead_letter_actions").fetchone() if batch.actions else None
        for action in batch.actions:
            if row is not None and action.id <= row[0]:
                continue
            if action.retry is not None:
                statement = (
                    f'retries SET due = 0 WHERE lane = ? AND partition = ? AND "offset" = ? AND due < {NEVER_MS}'
                )
                values: Sequence[object] = msgspec.structs.astuple(action.retry)
            elif action.try_lane is not None:
                statement = f"retries SET due = 0 WHERE lane = ? AND due > 0 AND due < {NEVER_MS}"
                values = (action.try_lane,)
            else:
                where, values = action.dead_letters.where()
                statement = f"dead_letters SET status = 'discarded' WHERE {where}"
            done = cursor.execute(f"UPDATE {statement}", values)
            many(_PUT_ACTION, [(1, action.id, done.rowcount)])

    def _erase(self, cursor: Cursor, erasure: ErasureRow) -> None:
        execute = cursor.execute
        many = cursor.executemany
        erase_shared_answers(cursor, erasure.rows)
        counts = []
        for table in ("remarks", "dead_letters", "attempts"):
            done = many(f'DELETE FROM {table} WHERE partition = ? AND "offset" = ?', erasure.rows)
            counts.append(max(0, done.rowcount))
        execute(
            'INSERT INTO erasures (request, asked_at, "round", retries, dead_letters, attempts)'
            ' VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (request, asked_at, "round") DO UPDATE SET'
            " retries = erasures.retries + excluded.retries,"
            " dead_letters = erasures.dead_letters + excluded.dead_letters,"
            " attempts = erasures.attempts + excluded.attempts",
            (*erasure[:4], *counts[1:]),
        )
        if self._fence is not None:
            many(
                'INSERT INTO erased_parts (request, asked_at, "round", partition, last_offset, places)'
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [
                    (*erasure[:3], partition, positions.end - 1, encode_offset_sets({partition: positions}))
                    for partition, positions in erasure.positions.items()
                ],
            )

    def empty_log(self) -> bool:
        """Bring the write-ahead log into the file and cut it; False when a reader was in the way for too long."""
        return empty_log(self._write)

    def forget_replays(self, lanes: Sequence[int]) -> None:
        """Drop what is known of replays that control no longer keeps."""
        ended = "lane = ? AND state <> 'running'"
        # First what they did not send: without the replay's row it would be for a disabled destination's.
        for statement in (
            f"DELETE FROM ranges WHERE lane IN (SELECT lane FROM replays WHERE {ended})",
            f"DELETE FROM replays WHERE {ended}",
        ):
            self._write.executemany(statement, [(lane,) for lane in lanes])

    def _add_block(self, cursor: Cursor, block: BlockRow, recovered_ms: int | None) -> None:
        """Insert a block, or add it to a small one of its bucket: at a low rate too there is no row per event. What an
        earlier process left is as old as ``recovered_ms``."""
        execute = cursor.execute
        bucket = block.first_offset >> BUCKET_SHIFT << BUCKET_SHIFT
        first_at_ms = block.at_ms - EXCHANGE_MS_MAX
        if recovered_ms is not None:
            first_at_ms = min(first_at_ms, recovered_ms)
        if len(block.entries) < SMALL_BLOCK_BYTES:
            done = execute(
                "UPDATE outcome_blocks SET entries = CAST(entries || ?1 AS BLOB),"
                " at = CASE WHEN at > ?2 THEN at ELSE ?2 END,"
                " first_offset = CASE WHEN first_offset < ?3 THEN first_offset ELSE ?3 END,"
                " last_offset = CASE WHEN last_offset > ?4 THEN last_offset ELSE ?4 END,"
                " first_at = CASE WHEN first_at > ?9 THEN ?9 ELSE first_at END"
                " WHERE id = (SELECT max(id) FROM outcome_blocks WHERE partition = ?5 AND first_offset >= ?6"
                " AND first_offset < ?7) AND length(entries) < ?8",
                (
                    block.entries,
                    block.at_ms,
                    block.first_offset,
                    block.last_offset,
                    block.partition,
                    bucket,
                    bucket + (1 << BUCKET_SHIFT),
                    SMALL_BLOCK_BYTES,
                    first_at_ms,
                ),
            )
            if done.rowcount:
                return
        execute(
            "INSERT INTO outcome_blocks (partition, first_offset, last_offset, at, entries, first_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*block, first_at_ms),
        )

    def _requeue(self, cursor: Cursor, requeue: Requeue, urls: str, mine: str, *, keep_dead_letters: bool) -> int:
        """Bring dead letters back to waiting, for every URL, or of ``urls`` those that failed last or refused.

        A replay's dead letters are kept: they took the place of the ones that it was to settle, and go as those would
        have gone, when their event is delivered. So they are still there when the replay is cancelled before.
        """
        execute = cursor.execute
        lane, since_ms, refusals = requeue
        wanted = f"lane = ? AND at >= ? AND status = 'failed'{'' if refusals else _BY_RECEIVER}{mine}"
        of_event = 'a.partition = d.partition AND a."offset" = d."offset" AND a.lane = d.lane'
        final = ", ".join(f"'{outcome}'" for outcome in sorted(FINAL))
        # An attempt without a next one gave the event up: when others followed, it was called back, and every refusal
        # up to then was forgotten. The URLs were asked again, and may have accepted.
        forgotten = f"SELECT max(a.number) FROM attempts AS a WHERE {of_event} AND a.next_at IS NULL"
        forgotten = f"coalesce(({forgotten} AND a.number < d.attempts), 0)"
        done = execute(
            'INSERT INTO retries (lane, partition, "offset", attempt, first_at, due, urls)'
            ' SELECT lane, partition, "offset", attempts,'
            f" coalesce(first_at, (SELECT min(at) FROM attempts AS a WHERE {of_event}), at), 0,"
            " coalesce((SELECT sum(DISTINCT 1 << url.key) FROM attempts AS a JOIN json_each(?) AS url"
            f" ON url.value = a.url WHERE {of_event} AND (a.number = d.attempts OR a.outcome IN ({final}))"
            f" AND a.number > {forgotten}),"
            f" {ALL_URLS})"
            f" FROM dead_letters AS d WHERE {wanted} ON CONFLICT DO NOTHING",
            (urls, lane, since_ms),
        )
        count = int(done.rowcount)
        if not keep_dead_letters:
            execute(f"DELETE FROM dead_letters WHERE {wanted}", (lane, since_ms))
        return count

    def _trim_dead_letters(self, cursor: Cursor, destinations: set[str]) -> None:
        cursor.executemany(
            "DELETE FROM dead_letters WHERE destination = ?1 AND id <= (SELECT id FROM dead_letters"
            f" WHERE destination = ?1 ORDER BY id DESC LIMIT 1 OFFSET {DEAD_LETTERS_MAX})",
            [(destination,) for destination in destinations],
        )

    def _trim_answers(self, cursor: Cursor) -> dict[str, int]:
        """Drop the oldest answers beyond ``ANSWERS_KEPT_MAX``; return up to when, by destination."""
        execute = cursor.execute
        trimmed_ms: dict[str, int] = {}
        for destination in [each for each, count in self._untrimmed.items() if count >= ATTEMPTS_PER_TRIM]:
            since_ms = self._trimmed_ms.get(destination, 0)
            of_it = "SELECT at FROM attempts WHERE destination = ?"
            last = execute(f"{of_it} ORDER BY at DESC LIMIT 1 OFFSET ?", (destination, ANSWERS_KEPT_MAX)).fetchone()
            step = (destination, since_ms, ANSWERS_PER_TRIM)
            end = execute(f"{of_it} AND at >= ? ORDER BY at LIMIT 1 OFFSET ?", step).fetchone()
            if last is None or end is None or last[0] <= end[0]:
                del self._untrimmed[destination]
            if last is not None:
                trimmed_ms[destination] = last[0] if end is None else min(last[0], end[0])
                execute(
                    "UPDATE attempts SET error = '', head = NULL"
                    " WHERE destination = ? AND at >= ? AND at <= ? AND (error <> '' OR head IS NOT NULL)",
                    (destination, since_ms, trimmed_ms[destination]),
                )
        return trimmed_ms

    def forget_below(self, partition: int, offset: int) -> None:
        """Drop what is known of events that the journal no longer keeps.

        Dead letters too: nobody can send them again, and a deletion finds nobody's by events that are gone, though a
        receiver's answer may name a person.
        """
        cursor = self._write.cursor()
        # Blocks hold positions and times, nothing of people, and are most of the file: they need not be overwritten.
        if is_file(self._write):
            cursor.execute("PRAGMA secure_delete = FAST")
        blocks = "DELETE FROM outcome_blocks WHERE partition = ?1 AND first_offset < ?2 AND last_offset < ?2"
        try:
            cursor.execute(blocks, (partition, offset))
        finally:
            overwrite_deleted(self._write)
        for statement in (
            'DELETE FROM attempts WHERE partition = ? AND "offset" < ?',
            'DELETE FROM dead_letters WHERE partition = ? AND "offset" < ?',
            'DELETE FROM remarks WHERE partition = ? AND "offset" < ?',
            # Filters that later ones replaced before what is kept begins; then lanes that ended there.
            "DELETE FROM lane_filters WHERE partition = ?1 AND EXISTS (SELECT 1 FROM lane_filters AS later"
            " WHERE later.lane = lane_filters.lane AND later.partition = ?1 AND later.id > lane_filters.id"
            ' AND later."offset" <= ?2)',
            'DELETE FROM lane_filters WHERE partition = ? AND "offset" < ? AND version = 0',
            'DELETE FROM versions_in_force WHERE partition = ?1 AND "offset" < (SELECT max(later."offset")'
            ' FROM versions_in_force AS later WHERE later.partition = ?1 AND later."offset" <= ?2)',
            # Not at once: control tells of what retention took from the rows of the last day.
            "DELETE FROM ranges WHERE partition = ?1 AND first_offset < ?2 AND last_offset < ?2"
            f" AND at < (SELECT max(at) FROM ranges) - {RANGES_KEPT_MS}",
            "DELETE FROM erased_parts WHERE partition = ? AND last_offset < ? AND EXISTS (SELECT 1 FROM erasures AS e"
            " WHERE e.request = erased_parts.request AND e.asked_at = erased_parts.asked_at"
            ' AND e."round" = erased_parts."round" AND e.done_at IS NOT NULL)',
        ):
            cursor.execute(statement, (partition, offset))

    def retries_below(self, partition: int, offset: int) -> dict[int, int]:
        """Return the offset of the first retry row below an offset that no range record names, by lane; on the writing
        thread."""
        query = (
            'SELECT lane, min("offset") FROM retries WHERE partition = ? AND "offset" < ? AND NOT EXISTS'
            " (SELECT 1 FROM ranges WHERE ranges.partition = retries.partition AND ranges.lane = retries.lane"
            ' AND ranges.first_offset <= retries."offset" AND ranges.last_offset >= retries."offset") GROUP BY lane'
        )
        return dict(self._write.execute(query, (partition, offset)).fetchall())

    def sync(self) -> None:
        """Bring what was committed to the disk, so that a power cut takes back a moment and not all since SQLite's own
        checkpoint; raise OSError when the disk refuses."""
        if self._log is None:
            return
        with contextlib.suppress(FileNotFoundError):  # no log: everything is in the file, and SQLite synced that
            descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
            try:
                getattr(os, "fdatasync", os.fsync)(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Close both connections."""
        self._read.close()
        self._write.close()
