"""Moves the data folder of a service, running or not: copies beside it, stops it, copies the rest.

The new service is started by whoever starts the old one; the last line says how.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from hookline.cli.admin_api import CommandFailed, reason_of
from hookline.cli.service import lock
from hookline.cli.target import Target
from hookline.database.sqlite import DatabaseError, engine
from hookline.journal.port import JournalError
from hookline.settings import Settings, SettingsError, load
from hookline.telemetry import log
from hookline.transfer.move import Move, check, is_moved, release, undo, warnings_of
from hookline.transfer.state import MoveFailed, Tell

STOP_SECONDS = 30.0
"""A supervisor ends its roles within 10, and what ``collect.drain_delay`` adds."""
_POLL_SECONDS = 0.05


def move(server: Target, file: Path, prepare: bool, as_json: bool) -> int:
    """Do the move, or take it up where it was interrupted."""
    with _failing():
        old, new = server.settings(), _load(file)
        log.configure("migrate-to", new.log.format)  # to standard error: the report stands alone
        report = MoveReport(old, new, as_json)
        if is_moved(old, new):
            release(old, new)
            report.end("moved", _last_line(old, new, file))
            return 0
        check(old, new)
        for warning in warnings_of(new):
            report.warn(warning)
        with _held(new):
            work = Move(old, new, report.tell)
            try:
                work.prepare()
                if prepare:
                    again = "run it again without --prepare to finish; the service keeps running meanwhile"
                    report.end("prepared", f"prepared: {again}")
                    return 0
                began = time.monotonic()
                with stopped(old, report.tell) as was_running:
                    try:
                        work.finish()
                    except BaseException:
                        # Once the mark is there only the last steps are missing, and the old folder starts no more.
                        if is_moved(old, new):
                            report.tell("moved, but for the last steps: run this again before you start Hookline")
                        elif was_running:
                            back = f"the service is stopped and {old.data_path} as it was: start it as before, or retry"
                            report.tell(back)
                        raise
                report.stopped_seconds = round(time.monotonic() - began, 1)
                report.tell(f"moved; the service was stopped {report.stopped_seconds} s ago")
            finally:
                work.close()
        report.end("moved", _last_line(old, new, file))
    return 0


def go_back(server: Target, file: Path, leave_events: bool, as_json: bool) -> int:
    """Go back to the old data folder."""
    with _failing():
        old, new = server.settings(), _load(file)
        log.configure("migrate-to", new.log.format)  # to standard error: the report stands alone
        report = MoveReport(old, new, as_json)
        with _held(new):
            report.events_left = undo(old, new, leave_events)
    if report.events_left:
        report.tell(f"{report.events_left:,} events that were stored since the move are in {new.journal.url} only")
    report.end("back", f"{old.data_path} is in use again: start Hookline with its settings")
    return 0


def _load(file: Path) -> Settings:
    try:
        settings, _ = load(file)
    except SettingsError as error:
        raise CommandFailed(str(error), exit_code=2) from None
    return settings


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (MoveFailed, lock.FolderInUse, JournalError, DatabaseError, OSError) as error:
        raise CommandFailed(reason_of(error)) from error
    except engine.Error as error:
        raise CommandFailed(
            f"a database does not work as it should ({str(error).strip()}): repair it and run this again"
        ) from error


@contextmanager
def _held(new: Settings) -> Iterator[None]:
    """Nobody else works in the new folder meanwhile."""
    lock.prepare(str(new.data_path))
    held = lock.hold_for_supervisor(str(new.data_path), new.collect.drain_delay)
    try:
        yield
    finally:
        os.close(held)


@contextmanager
def stopped(old: Settings, tell: Tell) -> Iterator[bool]:
    """End the service that works in the folder, if any, and let no other one begin; yields whether there was one."""
    held, was_running = _stop(old, tell)
    try:
        yield was_running
    finally:
        os.close(held)


def _stop(old: Settings, tell: Tell) -> tuple[int, bool]:
    folder, drain_delay = old.data_path, old.collect.drain_delay
    deadline = time.monotonic() + STOP_SECONDS + drain_delay
    asked = 0
    while True:
        pid = _supervisor(folder)
        if pid and pid != asked:
            tell(f"stopping the service (process {pid})")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            asked = pid
        try:
            return lock.hold_for_supervisor(str(folder), drain_delay), asked != 0
        except lock.FolderInUse as error:
            if not asked:
                raise
            if time.monotonic() > deadline:
                again = "once it has ended, start it again as before, or run this again"
                raise MoveFailed(
                    f"the service was asked to stop (process {asked}) and is still ending: {again}"
                ) from error
        time.sleep(_POLL_SECONDS)


def _supervisor(folder: Path) -> int:
    """The living process that holds the folder for a whole service, 0 when there is none."""
    return lock.holder(str(folder)) or 0


def _last_line(old: Settings, new: Settings, file: Path) -> str:
    config = shlex.quote(str(file))
    return f"start Hookline with --config {config}; {old.data_path} is kept as it was until you remove it"


State = Literal["prepared", "moved", "back"]


class MoveReport:
    """Of one run; as JSON one object on standard output, and the lines beside it on standard error."""

    def __init__(self, old: Settings, new: Settings, as_json: bool) -> None:
        self.stopped_seconds: float | None = None
        """How long ago the service was stopped, where this run has ended the move."""
        self.events_left = 0
        """Events that a way back left behind."""
        self._old = old
        self._new = new
        self._as_json = as_json
        self._warnings: list[str] = []

    def tell(self, line: str) -> None:
        """Say how far it is; that nobody reads it any more does not end a move in the middle."""
        stream = sys.stderr if self._as_json else sys.stdout
        try:
            print(line, file=stream, flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

    def warn(self, sentence: str) -> None:
        """Say what somebody may want to change before it is too late."""
        self._warnings.append(sentence)
        self.tell(f"warning: {sentence}")

    def end(self, state: State, line: str) -> None:
        """Say what came of it."""
        if not self._as_json:
            self.tell(line)
            return
        report = {
            "state": state,
            "from": str(self._old.data_path),
            "to": str(self._new.data_path),
            "journal": self._new.journal.url,
            "partitions": self._new.journal.partitions,
            "stoppedSeconds": self.stopped_seconds,
            "eventsLeft": self.events_left,
            "warnings": self._warnings,
            "nextStep": line,
        }
        print(json.dumps(report), flush=True)
