"""Named points between two durable steps at which a test may kill the process.

A point is inert unless ``HOOKLINE_CRASH_POINT`` names it: ``NAME`` kills at the first passage, ``NAME:N`` at the
N-th. Unarmed, ``crash_point`` does nothing; whoever adds a point to the code adds it to ``CRASH_POINTS``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENVIRONMENT_NAME = "HOOKLINE_CRASH_POINT"

CRASH_POINTS: dict[str, str] = {
    "journal.after_write_before_sync": "events are written, not yet synchronised",
    "journal.after_sync_before_publish": "events are durable, readers do not see them yet",
    "journal.after_publish_before_answer": "readers see the events, no caller has been answered",
    "journal.segment_filled": "the next segment is zero-filled under its temporary name",
    "journal.segment_created_before_rename": "the next segment has its header, not yet its name",
    "journal.segment_renamed_before_sync": "the next segment has its name, the folder is not synchronised",
    "journal.recovery_cut_saved": "recovery saved a torn tail and has not zeroed it",
    "journal.recovery_before_publish": "recovery synchronised the last segment, readers do not see its end yet",
    "journal.erase_intent_written": "the erase intent is durable, nothing is overwritten",
    "journal.erase_half_written": "a record is overwritten, its group's checksum is not",
    "journal.erase_before_intent_removed": "all is overwritten and synchronised, the intent still there",
    "journal.retention_between_segments": "one of several expired segments is gone",
    "deliver.answered_before_mark": "a receiver took an event, nothing of ours knows it yet",
    "deliver.before_checkpoint": "results are in the ring, not yet in the database",
    "deliver.after_checkpoint": "the database has a checkpoint, memory still holds it as open",
    "worker.partition_taken": "a partition is at work in a worker, no checkpoint of that worker knows it yet",
    "worker.partition_given_up": "a worker has saved all of a partition, the group does not know yet",
    "deliver.detached": "a lane has left the shared reader",
    "deliver.catching_up": "a detached lane was given a group",
    "deliver.replay_opened": "a replay has its lane, no checkpoint knows it yet",
    "deliver.erased_before_answer": "nothing of an erased event is left in deliver's files, control does not know",
    "warehouse.before_commit": "a batch is in a warehouse's tables, the transaction is open",
    "warehouse.after_commit": "a batch is committed in a warehouse, deliver does not know yet",
    "privacy.looked_up": "a deletion request's data is looked up, nothing says so yet",
    "privacy.sent": "the delete messages are in the journal, nothing says so yet",
    "privacy.journal_erased": "a person's events are overwritten in the journal, nothing says so yet",
    "privacy.ids_forgotten": "the ids of a request are out of its rows, not out of the log, nothing says so yet",
    "deliver.attached_again": "a lane that caught up follows the shared reader again",
    "transfer.journal_copied": "a local journal is copied to Kafka, its databases are not",
    "transfer.databases_copied": "databases are copied to PostgreSQL as they were at one moment",
    "transfer.rest_copied": "with the service stopped everything is copied, the old data folder still counts",
    "transfer.marked": "the new installation counts, its database does not know yet",
    "profiles.before_commit": "a batch of people is written and not committed",
    "profiles.after_commit": "a batch of people is committed, memory still holds it as unwritten",
    "profiles.judged": "some people's values are committed, their sync looks at the others still",
    "profiles.synced": "messages of a sync are in the journal and marked so, others are not yet",
    "profiles.appended": "messages of a sync are in the journal, nothing of ours knows it yet",
    "profiles.preview_taken": "a preview is written down, and still asked for as well",
    "profiles.preview_step": "some people were looked at for a preview, or it is done",
    "profiles.traits_folded": "new traits of some persons are in their rows, those of others are still in chunks",
    "profiles.chunk_moved": "of chunks that are put together, some features have moved",
    "files.noted": "what will be written is noted, no file is there",
    "files.one_written": "of several files that a write makes one is there, no manifest names it",
    "files.all_written": "all files of a write are there, no manifest names them",
    "files.committed": "the manifest is there, no event of it is marked as delivered",
    "files.erasure_noted": "what will be erased from files is noted, nothing is erased",
    "files.erased_one": "one of several files is written anew without a person, no manifest says so",
    "profiles.erased_before_answer": "nothing of erased people is left in the files of profiles, control does not know",
}
"""Every name with its meaning."""


def _inert(name: str) -> None:
    """Do nothing: no point is armed in this process."""


class _Armed:
    """Kills the process at the N-th passage of one point."""

    def __init__(self, setting: str) -> None:
        self._name, _, passages = setting.partition(":")
        if self._name not in CRASH_POINTS:
            raise ValueError(f"{ENVIRONMENT_NAME}: no crash point is named {self._name!r}; see CRASH_POINTS")
        self._passages_left = int(passages or 1)

    def __call__(self, name: str) -> None:
        if name != self._name:
            return
        self._passages_left -= 1
        if self._passages_left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


CRASH_POINTS_ARMED = bool(os.environ.get(ENVIRONMENT_NAME))
"""Whether any is: for a point that an event passes, where even an empty call would show."""

_reached: Callable[[str], None] = _Armed(os.environ[ENVIRONMENT_NAME]) if CRASH_POINTS_ARMED else _inert


def crash_point(name: str) -> None:
    """Mark a point by its name; an unarmed one costs two empty calls."""
    _reached(name)


@contextmanager
def crash_points_tell(watcher: Callable[[str], None]) -> Iterator[None]:
    """Have ``watcher`` told of each point that is passed meanwhile: a simulated process ends there without a kill."""
    global _reached
    before, _reached = _reached, watcher
    try:
        yield
    finally:
        _reached = before
