"""Uploads a log file: what an earlier run left, then what was written since, each to its end."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Sequence

from hookline_client.answer import Answer
from hookline_client.line_reader import Line, LineReader
from hookline_client.receipts import Message
from hookline_client.refusal import is_about_content
from hookline_client.transport import Transport
from hookline_client.trust import NotTrusted
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.instance_lock import InstanceLock
from hookline_client.uploader.line_batch import LineBatch, batches
from hookline_client.uploader.report import Report
from hookline_client.uploader.side_file import SideFile
from hookline_client.uploader.taken_file import TakenFile

RETRY_SECONDS = 20.0
"""How long one batch is tried in one run; a run every minute then ends before the next begins."""
RETRY_FIRST_SECONDS = 0.25
RETRY_MAX_SECONDS = 5.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Uploader:
    """One run for the log at ``path``. ``sleep`` is how it waits between tries."""

    def __init__(
        self,
        path: str,
        transport: Transport,
        report: Report,
        retry_seconds: float = RETRY_SECONDS,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._path = path
        self._transport = transport
        self._report = report
        self._retry_seconds = retry_seconds
        self._sleep = sleep

    def run(self) -> ExitCode:
        """Upload everything that was in the log when the run began; say how it ended."""
        lock = InstanceLock(f"{self._path}.lock")
        try:
            if not lock.take():
                self._report.note(f"another uploader is at {self._path}; it goes on")
                return ExitCode.LATER
            return self._run()
        except _NotUploaded as ended:
            self._report.problem(ended.sentence)
            return ended.exit_code
        except TimeoutError as error:
            self._report.problem(f"{error}; the next run tries again")
            return ExitCode.LATER
        except NotTrusted as error:
            self._report.problem(f"{error}; nothing is removed")
            return ExitCode.DISK
        except OSError as error:
            self._report.problem(f"{error}; nothing is lost, the next run tries again")
            return ExitCode.DISK
        finally:
            lock.release()

    def _run(self) -> ExitCode:
        for _ in range(2):  # what an earlier run left, then the log itself
            is_rest = os.path.lexists(f"{self._path}.uploading")
            taken = TakenFile.take(self._path)
            if taken is None:
                break
            with taken:
                self._upload(taken)
            if not is_rest:
                break
        if self._report.set_aside:
            self._report.problem(f"lines that cannot be uploaded: {self._report.set_aside}; see {self._path}.rejected")
            return ExitCode.SET_ASIDE
        return ExitCode.DONE

    def _upload(self, taken: TakenFile) -> None:
        side_file = SideFile(f"{self._path}.rejected", taken.place.upload)
        while True:
            lines = LineReader(taken.file, taken.place.offset_bytes)
            for batch in batches(lines, taken.place.upload):
                aside = [*batch.aside, *self._send(batch.events)]
                side_file.keep(aside)
                self._count(batch, aside)
                if batch.end_bytes is not None:
                    taken.place.offset_bytes = batch.end_bytes
                    self._keep_place(taken)
                self._report.progress(lines.end_bytes, taken.size_bytes)
            taken.place.offset_bytes = lines.end_bytes
            if taken.remove():
                return

    def _keep_place(self, taken: TakenFile) -> None:
        try:
            taken.keep_place()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # It is the log that fills the disk: go on until it can be removed. A run that ends before repeats events,
            # which the service knows by their messageId.
            self._report.problem_once(f"no room to write down how far it is ({error})")

    def _count(self, batch: LineBatch, aside: Sequence[tuple[Line, str, str]]) -> None:
        self._report.set_aside += sum(line.is_last_piece for line, _, _ in aside)
        self._report.acknowledged += len(batch.events) + len(batch.aside) - len(aside)

    def _send(self, events: Sequence[tuple[Line, Message]]) -> list[tuple[Line, str, str]]:
        """Send events until they are acknowledged; return those that the service refuses."""
        if not events:
            return []
        answer = self._send_repeatedly([message for _, message in events])
        if not answer.code:
            return [(events[index][0], code, reason) for index, code, reason in answer.rejected if index < len(events)]
        if not is_about_content(answer):
            raise _NotUploaded(answer)
        if len(events) == 1:
            return [(events[0][0], answer.code, answer.reason)]
        middle = len(events) // 2  # one line spoils the request for the others: it is looked for
        return self._send(events[:middle]) + self._send(events[middle:])

    def _send_repeatedly(self, messages: Sequence[Message]) -> Answer:
        deadline = time.monotonic() + self._retry_seconds
        pause_seconds = RETRY_FIRST_SECONDS
        while True:
            answer = self._transport.send(messages)
            if not answer.retryable:
                return answer
            wait_seconds = max(random.uniform(0, pause_seconds), answer.retry_after_seconds or 0.0)
            if time.monotonic() + wait_seconds > deadline:
                return answer
            self._sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_MAX_SECONDS)


class _NotUploaded(Exception):
    """The service does not take the batch now, or not at all."""

    def __init__(self, answer: Answer) -> None:
        self.exit_code = ExitCode.LATER if answer.retryable else ExitCode.REFUSED
        goes_on = (
            "the next run goes on" if answer.retryable else "nothing is lost, but it will not get better by itself"
        )
        self.sentence = f"{answer.code}: {answer.reason} ({goes_on})"
        super().__init__(self.sentence)
