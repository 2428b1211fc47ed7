"""Sends delete messages, follows what becomes of them, and sends again what expired, for up to 30 days."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hookline.events.timestamps import iso
from hookline.features.events.log import EventLog
from hookline.index import lookup
from hookline.journal.opening import open_reader
from hookline.journal.record import FORMAT_VERSION, Record, fingerprint
from hookline.journal.remote import RemoteAppender
from hookline.outcomes.delivery import DestinationStatus
from hookline.outcomes.event_status import DELETED, EventStatus
from hookline.outcomes.outcome import DeliveryStatus
from hookline.privacy.model import DeletionRequest, Message, Messages, NextTry, Receipt
from hookline.privacy.requests import Requests
from hookline.replays.offset_set import OffsetSet

ACCEPTED = "delivered"
TRY_AGAIN = frozenset(("failed", "expired", "expired_by_retention"))
NOT_SENT = frozenset(("not_routed", "filtered", "discarded", "duplicate", "suppressed", "rejected", "erased"))
NOT_DELIVERED = "not_delivered"
PAUSE_MS = 3_600_000
"""From the end of a try to the next one: by then it was tried for hours, or refused."""
KEPT_UP_MS = 30 * 86_400_000
LOOK_SHARE = 20
"""A message is looked at again after this fraction of its age."""
LOOK_MS_MAX = 300_000
PLANNED_LOOK_MS = 60_000
"""From one look at the try before a planned one to the next: somebody may retry its dead letter meanwhile."""
MESSAGES_PER_LOOK = 100
"""Of one request; the others at the next look. Each takes milliseconds, and a request may have thousands."""
REMARK_MS_MAX = 5_000
"""What a sink says of an erasure comes with the next checkpoint; one that says nothing is not waited for longer."""


class DeletionMessages:
    """The messages of one request at a time."""

    def __init__(
        self,
        data_path: Path,
        messages: Messages,
        requests: Requests,
        journal: RemoteAppender,
        events: EventLog,
        steady_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        sinks: Callable[[], Collection[str]] = tuple[str, ...],
    ) -> None:
        """Tries follow each other, and end, by the service's own clock, ``steady_ms``. ``sinks`` are the destinations
        that say what they erased."""
        self._data_path = data_path
        self._messages = messages
        self._requests = requests
        self._journal = journal
        self._events = events
        self._steady_ms = steady_ms
        self._sinks = sinks
        self._awaited: dict[tuple[int, str], int] = {}
        """By message and destination: until when a remark is waited for."""
        self._looks_ms: dict[int, int] = {}
        """By message whose next try is planned: when the try before it is looked at again."""

    def due(self, requests: Sequence[DeletionRequest]) -> set[int]:
        """Return the numbers of those of which some message is to be sent or looked at now, or none is open any more;
        one look for all, because thousands may wait for one receiver."""
        if not requests:
            return set()
        now_ms = self._steady_ms()
        due = self._messages.requests_due(now_ms)
        due.update(request for request, id in self._messages.planned_again() if self._looks_ms.get(id, 0) <= now_ms)
        return due & {request.number for request in requests}

    async def send(self, request: DeletionRequest) -> None:
        """Append what is due, unless the try before it was accepted or waits again; one that was appended before a
        crash is recognised by its messageId."""
        now_ms = self._steady_ms()
        looked_at = await self._reopen(request, now_ms)
        planned = [
            each
            for each in self._messages.of(request.number)
            if each.state == "planned" and each.due_ms <= now_ms and (each.tries == 1 or each.id in looked_at)
        ]
        if not planned:
            return
        users = {person.number: person.user_id or "" for person in self._requests.people(request.number)}
        await self._journal.append([_record(each, users[each.number], time.time_ns() // 1_000_000) for each in planned])
        await asyncio.to_thread(self._note_sent, planned)  # one write to the disk for each

    def _note_sent(self, messages: Iterable[Message]) -> None:
        for each in messages:
            self._messages.sent(each.id)
            self._looks_ms.pop(each.id, None)

    def _may_be_accepted(self, message: Message, now_ms: int) -> bool:
        """Return whether to look at the try before a planned one: at intervals, and once more before it is sent."""
        look_ms = min(message.due_ms, self._looks_ms.get(message.id, 0))
        return message.state == "planned" and message.tries > 1 and look_ms <= now_ms

    async def _reopen(self, request: DeletionRequest, now_ms: int) -> set[int]:
        """Go back to tries that wait again or were accepted after they had ended: dead letters are queued again when a
        breaker opens, and when a person retries them. Return which messages were looked at: first those to be sent now,
        then those that were looked at longest ago."""
        due = [each for each in self._messages.of(request.number) if self._may_be_accepted(each, now_ms)]
        due.sort(key=lambda each: (each.due_ms > now_ms, self._looks_ms.get(each.id, 0)))
        now = due[:MESSAGES_PER_LOOK]
        for message in now:
            self._looks_ms[message.id] = now_ms + PLANNED_LOOK_MS
            last_id = self._requests.message_id(request, message.number, message.source, message.tries - 1)
            event = await self._events.of_message(last_id, message.source)
            statuses = _statuses(event)
            last = [statuses.get(id) for id in message.destinations]
            is_accepted = any(at is not None and at.status == ACCEPTED for at in last)
            # Where another destination has ended, it gets the next try at its time: it does not wait for this one.
            all_wait = all(at is not None and not _has_ended(at) for at in last)
            if is_accepted or all_wait:
                await asyncio.to_thread(self._messages.reopen, message.id, last_id)
                del self._looks_ms[message.id]
        return {message.id for message in now}

    async def all_closed(self, request: DeletionRequest) -> bool:
        """Look what has become of some messages that are due; return whether each was acknowledged or cannot be."""
        now_ms = self._steady_ms()
        due = [each for each in self._messages.of(request.number) if each.state == "sent" and each.due_ms <= now_ms]
        for message in sorted(due, key=lambda each: each.due_ms)[:MESSAGES_PER_LOOK]:
            await self._look(request, message, now_ms)
        return all(message.state == "closed" for message in self._messages.of(request.number))

    async def _look(self, request: DeletionRequest, message: Message, now_ms: int) -> None:
        event = await self._events.of_message(message.message_id, message.source)
        age_ms = now_ms - (message.first_ms or now_ms)
        statuses = _statuses(event)
        # A destination that was deleted before this try has no status: nobody waits 30 days for it.
        unknown = (DeliveryStatus.DISCARDED, DELETED) if event else (DeliveryStatus.EXPIRED_BY_RETENTION, None)
        asked = {id: statuses.get(id) or DestinationStatus(id, *unknown) for id in message.destinations}
        is_open = any(not _has_ended(each) or self._awaits_remark(message, each, now_ms) for each in asked.values())
        goes_on = age_ms + PAUSE_MS < KEPT_UP_MS
        if event is not None and is_open and goes_on:
            # Where nothing is sent, somebody has to delete by hand: known before the last receiver has answered.
            final = [
                _receipt(each, message.first_ms or now_ms, each.status)
                for each in asked.values()
                if _has_ended(each) and each.status not in TRY_AGAIN
            ]
            due_ms = now_ms + min(LOOK_MS_MAX, age_ms // LOOK_SHARE)
            await asyncio.to_thread(self._messages.look_again, message.id, final, due_ms)
            return
        # What is open in the end waits for a receiver that is paused or gone, for as long as the journal keeps it.
        failed = tuple(id for id, each in asked.items() if each.status in TRY_AGAIN or not _has_ended(each))
        receipts = [
            _receipt(each, now_ms, NOT_DELIVERED)
            if id in failed
            else _receipt(each, message.first_ms or now_ms, each.status)
            for id, each in asked.items()
            if id not in failed or not goes_on
        ]
        again = None
        if failed and goes_on:
            next_id = self._requests.message_id(request, message.number, message.source, message.tries + 1)
            again = NextTry(failed, next_id, now_ms + PAUSE_MS)
        await asyncio.to_thread(self._messages.settle, message, receipts, again)
        self._awaited = {key: until_ms for key, until_ms in self._awaited.items() if key[0] != message.id}

    def _awaits_remark(self, message: Message, at: DestinationStatus, now_ms: int) -> bool:
        """Return whether what was erased is about to be known: a result is seen a moment before the checkpoint."""
        if at.status != ACCEPTED or any(attempt.remark for attempt in at.attempts) or at.id not in self._sinks():
            return False
        return now_ms < self._awaited.setdefault((message.id, at.id), now_ms + REMARK_MS_MAX)

    async def positions(self, request: DeletionRequest) -> dict[int, OffsetSet]:
        """Return where the delete messages themselves lie, every try that is still there.

        One more than is known of may be: it was appended before a crash, and the try before it was then accepted.
        """
        messages = self._messages.of(request.number)
        wanted = {
            fingerprint(each.source, self._requests.message_id(request, each.number, each.source, tries))
            for each in messages
            if each.first_ms is not None
            for tries in range(1, each.tries + 2)
        }
        return await self._events.run(lambda: self._find(wanted)) if wanted else {}

    def _find(self, wanted: Collection[bytes]) -> dict[int, OffsetSet]:
        journal = open_reader(self._data_path / "journal")
        try:
            found: dict[int, list[int]] = {}
            for partition in journal.partitions():
                for offset in lookup.find_all(journal, self._data_path / "index", partition, wanted):
                    record = journal.get(partition, offset)
                    if record is not None and not record.erased and record.fingerprint in wanted:
                        found.setdefault(partition, []).append(offset)
        finally:
            journal.close()
        return {partition: OffsetSet(offsets) for partition, offsets in found.items()}


def _record(message: Message, user_id: str, now_ms: int) -> Record:
    at = iso(now_ms)
    body = msgspec.json.encode({"type": "delete", "userId": user_id, "timestamp": at})
    return Record(
        FORMAT_VERSION,
        False,
        now_ms,
        message.source,
        "delete",
        message.message_id,
        fingerprint(message.source, message.message_id),
        user_id,
        at,
        "deletion",
        body,
        to=message.destinations,
    )


def _statuses(event: EventStatus | None) -> dict[str, DestinationStatus]:
    """Return by destination what became of an event; one that a replay delivered, as a retry of a dead letter is, still
    has its first status."""
    if event is None:
        return {}
    return {
        each.id: replace(each, status=DeliveryStatus.DELIVERED, reason=None)
        if any(replay.status == ACCEPTED for replay in each.replays)
        else each
        for each in event.destinations
    }


def _has_ended(at: DestinationStatus) -> bool:
    return at.status == ACCEPTED or at.status in TRY_AGAIN or at.status in NOT_SENT


def _receipt(at: DestinationStatus, now_ms: int, final: str) -> Receipt:
    accepted = [attempt.at for attempt in at.attempts if attempt.outcome == "success"]
    at_ms = int(datetime.fromisoformat(accepted[-1]).timestamp() * 1000) if accepted else now_ms
    reason = at.reason if final != NOT_DELIVERED else f"{at.status} at every try for 30 days"
    remark = next((attempt.remark for attempt in at.attempts if attempt.remark), None)
    return Receipt(at.id, final, reason, at_ms, remark)
