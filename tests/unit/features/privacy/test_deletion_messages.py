"""Delete messages on their way into the journal: when they are due, as what, and found again to be erased."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from hookline.database.open import open_control
from hookline.features.events.log import EventLog
from hookline.features.privacy import messages as module
from hookline.features.privacy.messages import KEPT_UP_MS, PAUSE_MS, REMARK_MS_MAX, DeletionMessages
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import Record
from hookline.journal.remote import JournalUnreachable, RemoteAppender, serve_append
from hookline.outcomes.delivery import Attempt, DestinationStatus, ReplayStatus
from hookline.outcomes.event_status import DELETED, EventStatus
from hookline.outcomes.outcome import DeliveryStatus, Outcome
from hookline.privacy import id_digest
from hookline.privacy.model import DeletionRequest, Message, Messages, NextTry
from hookline.privacy.requests import Requests
from hookline.privacy.search import SearchResult
from hookline.privacy.suppressions import PrivacyStore, Suppressions
from hookline.settings import Settings


class Clock:
    """A time to be set."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


class Sending:
    """A planned request of one person, and a journal to send into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.store = PrivacyStore(path / "privacy.db")
        digests = id_digest.load(path)
        self.requests = Requests(self.store, digests, Suppressions(self.store, digests), self.clock)
        self.messages = Messages(self.store, self.clock)
        made = self.requests.create(["u1"], "delete", "me")
        found = SearchResult(["u1"])
        found.events[0] = Counter(site=1)
        self.requests.plan(made, found, [(0, "site", 1, ("crm", "mail"))])
        planned = self.requests.get(made.number)
        assert planned is not None
        self.request: DeletionRequest = planned
        open_control(path / "control.db").close()
        self.log = EventLog(Settings(data_dir=str(path)))

    @property
    def message(self) -> Message:
        """The only message, as it stands."""
        (message,) = self.messages.of(self.request.number)
        return message

    def watch(self, seen: EventLog, *sinks: str) -> DeletionMessages:
        """Note the message as sent, and return who looks in `seen` what has become of it; there is no journal."""
        self.messages.sent(self.message.id)
        parts = self.path, self.messages, self.requests, RemoteAppender(self.path / "s"), seen, self.clock
        return DeletionMessages(*parts, lambda: sinks)

    async def run(self) -> None:
        """Send twice now, as after a crash; then the second try to one destination, too early and when it is due."""
        appender = LocalAppender(self.path / "journal", retention_seconds=10**9, retention_bytes=2**30)
        server = await serve_append(self.path / "s", appender)
        remote = RemoteAppender(self.path / "s")
        sending = DeletionMessages(self.path, self.messages, self.requests, remote, self.log, self.clock)
        await sending.send(self.request)
        await sending.send(self.request)
        message = self.message
        next_id = self.requests.message_id(self.request, 0, "site", 2)
        self.messages.settle(message, [], NextTry(("mail",), next_id, self.clock() + PAUSE_MS))
        await sending.send(self.request)
        self.clock.ms += PAUSE_MS
        await sending.send(self.request)
        self.positions = await sending.positions(self.request)
        await remote.close()
        server.close()
        await appender.close()

    def records(self) -> list[Record]:
        """What is in the journal."""
        reader = LocalReader(self.path / "journal")
        found = [record for group in reader.read(0, 0) for record in group.records]
        reader.close()
        return found


def test_a_message_is_sent_once_per_try_and_only_when_due(tmp_path: Path) -> None:
    """With three fields, aimed at those who have not accepted; every try is found again."""
    sending = Sending(tmp_path)
    asyncio.run(sending.run())
    first, second = sending.records()
    assert (first.origin, first.type, first.source) == ("deletion", "delete", "site")
    assert (first.to, second.to) == (("crm", "mail"), ("mail",))
    assert first.message_id != second.message_id
    assert list(json.loads(second.body)) == ["type", "userId", "timestamp"]
    assert json.loads(second.body)["userId"] == "u1"
    assert list(sending.positions[0]) == [0, 1]
    sending.log.close()
    sending.store.close()


def test_thirty_days_are_many_tries() -> None:
    """The bound is the specification's, and a try takes hours at most."""
    assert KEPT_UP_MS == 30 * 24 * 3_600_000
    assert PAUSE_MS < KEPT_UP_MS / 100


class SeenInTheRing(EventLog):
    """Events that every destination has accepted; what a sink says of it comes with the next checkpoint."""

    remark: str | None = None

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        at = "2026-11-24T12:00:00.000Z"

        def accepted(id: str, remark: str | None) -> DestinationStatus:
            attempt = Attempt(1, "", at, Outcome.SUCCESS, 200, None, 1, None, remark=remark)
            return DestinationStatus(id, DeliveryStatus.DELIVERED, attempts=(attempt,))

        return EventStatus(
            message_id=message_id,
            source="site",
            type="delete",
            user_id="u1",
            received_at=at,
            duplicates=0,
            status=None,
            rejection=None,
            event=msgspec.Raw(b"{}"),
            destinations=(accepted("crm", None), accepted("mail", self.remark)),
        )


@pytest.mark.parametrize("remark", ["5 rows erased, 1 file written anew", None])
def test_a_message_is_closed_once_its_sink_has_said_what_it_erased(tmp_path: Path, remark: str | None) -> None:
    """Or when nothing has come for some seconds; whoever is no sink is not waited for."""
    sending = Sending(tmp_path)
    seen = SeenInTheRing(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen, "mail"), sending.message
    assert not asyncio.run(messages.all_closed(sending.request))
    seen.remark = remark
    sending.clock.ms += 1 if remark else REMARK_MS_MAX
    assert asyncio.run(messages.all_closed(sending.request))
    receipts = {each.destination: each.remark for each in sending.messages.receipts(sending.request.number)[message.id]}
    assert receipts == {"crm": None, "mail": remark}
    assert asyncio.run(sending.watch(seen).all_closed(sending.request))


def test_a_request_of_many_is_looked_at_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message costs milliseconds, and others wait: the next look takes those that this one left."""
    monkeypatch.setattr(module, "MESSAGES_PER_LOOK", 2)
    sending = Sending(tmp_path)
    messages, people = sending.watch(SeenInTheRing(Settings(data_dir=str(tmp_path)))), ["a", "b", "c"]
    made = sending.requests.create(people, "delete", "me")
    sending.requests.plan(made, SearchResult(people), [(number, "site", 1, ("crm",)) for number in range(3)])
    for message in sending.messages.of(made.number):
        sending.messages.sent(message.id)
    assert not asyncio.run(messages.all_closed(made))
    assert [each.state for each in sending.messages.of(made.number)] == ["closed", "closed", "sent"]
    assert made.number in messages.due([sending.request, made])
    assert asyncio.run(messages.all_closed(made))


def test_no_try_is_sent_before_the_one_before_it_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that are due at once a part at a time is looked at, and no other is sent: all were accepted meanwhile."""
    monkeypatch.setattr(module, "MESSAGES_PER_LOOK", 2)
    sending = Sending(tmp_path)
    messages, people = sending.watch(SeenInTheRing(Settings(data_dir=str(tmp_path)))), ["a", "b", "c", "d", "e"]
    made = sending.requests.create(people, "delete", "me")
    sending.requests.plan(made, SearchResult(people), [(number, "site", 1, ("crm",)) for number in range(5)])
    for message in sending.messages.of(made.number):
        sending.messages.sent(message.id)
        next_id = sending.requests.message_id(made, message.number, "site", 2)
        sending.messages.settle(message, [], NextTry(("crm",), next_id, sending.clock() + PAUSE_MS))
    sending.clock.ms += PAUSE_MS
    for _ in range(3):  # there is no journal to append to
        asyncio.run(messages.send(made))
    assert {each.tries for each in sending.messages.of(made.number)} == {1}


class FilteredAtOne(SeenInTheRing):
    """An event that one destination accepted and the other has no request for."""

    reason: str | None = "Slack has no delete message, so nothing was sent. Delete the person in Slack by hand"

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        seen = await super().of_message(message_id, source)
        assert seen is not None
        filtered = DestinationStatus("mail", DeliveryStatus.FILTERED, self.reason)
        return msgspec.structs.replace(seen, destinations=(seen.destinations[0], filtered))


class GoneAtOne(SeenInTheRing):
    """An event that one destination accepted; the other was deleted before it was sent, so nothing is said of it."""

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        seen = await super().of_message(message_id, source)
        assert seen is not None
        return msgspec.structs.replace(seen, destinations=seen.destinations[:1])


@pytest.mark.parametrize(
    ("kind", "ended"), [(FilteredAtOne, ("filtered", FilteredAtOne.reason)), (GoneAtOne, ("discarded", DELETED))]
)
def test_what_was_not_sent_is_closed_with_its_reason(
    tmp_path: Path, kind: type[SeenInTheRing], ended: tuple[str, str]
) -> None:
    """A destination without a delete message, or that was deleted, is not waited for, and the evidence says why."""
    sending = Sending(tmp_path)
    seen = kind(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen), sending.message
    assert asyncio.run(messages.all_closed(sending.request))
    receipts = {
        each.destination: (each.status, each.reason)
        for each in sending.messages.receipts(sending.request.number)[message.id]
    }
    assert receipts == {"crm": ("delivered", None), "mail": ended}
    seen.close()
    sending.store.close()


class QueuedAtTheOther(FilteredAtOne):
    """An event that one destination has no request for, and whose other receiver is down."""

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        seen = await super().of_message(message_id, source)
        assert seen is not None
        queued = DestinationStatus("crm", DeliveryStatus.QUEUED)
        return msgspec.structs.replace(seen, destinations=(queued, seen.destinations[1]))


def test_what_was_not_sent_is_known_while_another_receiver_is_down(tmp_path: Path) -> None:
    """Whoever deletes by hand need not wait for that receiver, which may take 30 days; the time stays the same."""
    sending = Sending(tmp_path)
    seen = QueuedAtTheOther(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen), sending.message
    sent_ms = sending.clock.ms
    for _ in range(2):
        assert not asyncio.run(messages.all_closed(sending.request))
        (receipt,) = sending.messages.receipts(sending.request.number)[message.id]
        assert (receipt.destination, receipt.status, receipt.reason) == ("mail", "filtered", seen.reason)
        assert receipt.at_ms == sent_ms
        sending.clock.ms += 3_600_000
    seen.close()
    sending.store.close()


class RefusedByOne(SeenInTheRing):
    """Events that one destination accepted and the other refused, until that changes."""

    status = DeliveryStatus.FAILED
    at_first: DestinationStatus | None = None
    replays: tuple[ReplayStatus, ...] = ()

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        seen = await super().of_message(message_id, source)
        assert seen is not None
        self.asked = message_id
        other = DestinationStatus("mail", self.status, "400", replays=self.replays)
        return msgspec.structs.replace(seen, destinations=(self.at_first or seen.destinations[0], other))


@pytest.mark.parametrize("after_ms", [60_000, PAUSE_MS])
@pytest.mark.parametrize("by", ["breaker", "replay"])
def test_a_try_that_is_accepted_after_it_was_refused_ends_the_message(tmp_path: Path, by: str, after_ms: int) -> None:
    """The breaker opened, or a person retried the dead letter; it is known soon, and before the next try is sent."""
    sending = Sending(tmp_path)
    seen = RefusedByOne(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen), sending.message
    assert not asyncio.run(messages.all_closed(sending.request))
    assert messages.due([sending.request])  # nothing is remembered across a restart
    asyncio.run(messages.send(sending.request))
    assert not messages.due([sending.request])
    assert [each.destination for each in sending.messages.unacknowledged(0)] == ["mail"]
    if by == "replay":
        seen.replays = (ReplayStatus("rp1", DeliveryStatus.DELIVERED),)
    else:
        seen.status = DeliveryStatus.DELIVERED
    sending.clock.ms += after_ms
    assert messages.due([sending.request])
    asyncio.run(messages.send(sending.request))  # there is no journal to append to
    assert asyncio.run(messages.all_closed(sending.request))
    assert seen.asked == message.message_id
    receipts = sending.messages.receipts(sending.request.number)[message.id]
    assert {each.destination: each.status for each in receipts} == {"crm": "delivered", "mail": "delivered"}
    assert sending.messages.unacknowledged(0) == []
    assert sending.message.tries == 1
    seen.close()
    sending.store.close()


def test_no_next_try_is_sent_while_the_one_before_waits_again(tmp_path: Path) -> None:
    """The breaker opened and its dead letter is queued again: the receiver would get both. Once it expires, the next
    is planned."""
    sending = Sending(tmp_path)
    seen = RefusedByOne(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen), sending.message
    assert not asyncio.run(messages.all_closed(sending.request))
    seen.status = DeliveryStatus.QUEUED
    sending.clock.ms += PAUSE_MS
    asyncio.run(messages.send(sending.request))  # there is no journal to append to
    assert not asyncio.run(messages.all_closed(sending.request))
    waiting = sending.message
    assert (waiting.state, waiting.tries, waiting.message_id) == ("sent", 1, message.message_id)
    seen.status = DeliveryStatus.EXPIRED
    sending.clock.ms += PAUSE_MS
    assert not asyncio.run(messages.all_closed(sending.request))
    planned = sending.message
    assert (planned.state, planned.tries, planned.destinations) == ("planned", 2, ("mail",))
    assert planned.due_ms == sending.clock.ms + PAUSE_MS
    seen.close()
    sending.store.close()


def test_a_destination_that_refused_gets_the_next_try_although_another_one_waits(tmp_path: Path) -> None:
    """It might else wait for 30 days, for a destination that is paused."""
    sending = Sending(tmp_path)
    seen = RefusedByOne(Settings(data_dir=str(tmp_path)))
    seen.at_first = DestinationStatus("crm", DeliveryStatus.FAILED, "400")
    messages = sending.watch(seen)
    assert not asyncio.run(messages.all_closed(sending.request))
    seen.status = DeliveryStatus.QUEUED
    sending.clock.ms += PAUSE_MS
    with pytest.raises(JournalUnreachable):
        asyncio.run(messages.send(sending.request))  # there is no journal to append to
    seen.close()
    sending.store.close()


class QueuedAtOne(SeenInTheRing):
    """An event that one destination accepted and that waits at the other, which is paused."""

    async def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        seen = await super().of_message(message_id, source)
        assert seen is not None
        queued = DestinationStatus("mail", DeliveryStatus.QUEUED, "paused")
        return msgspec.structs.replace(seen, destinations=(seen.destinations[0], queued))


def test_a_message_that_only_waits_is_given_up_after_thirty_days(tmp_path: Path) -> None:
    """However long the journal keeps it: no id is kept longer, and the evidence says to whom it was not delivered."""
    sending = Sending(tmp_path)
    seen = QueuedAtOne(Settings(data_dir=str(tmp_path)))
    messages, message = sending.watch(seen), sending.message
    for days in (0, 29):
        sending.clock.ms += days * 86_400_000
        assert not asyncio.run(messages.all_closed(sending.request))
    sending.clock.ms += 86_400_000
    assert asyncio.run(messages.all_closed(sending.request))
    receipts = {
        each.destination: (each.status, each.reason)
        for each in sending.messages.receipts(sending.request.number)[message.id]
    }
    assert receipts == {"crm": ("delivered", None), "mail": ("not_delivered", "queued at every try for 30 days")}
    seen.close()
    sending.store.close()
