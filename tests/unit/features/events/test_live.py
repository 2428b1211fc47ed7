"""The live stream of events."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hookline.features.events import service
from hookline.features.events.log import EventLog, LoggedEvent
from hookline.features.events.service import QUEUE_MESSAGES_MAX, Message, Watcher, live_events
from hookline.settings import Settings
from tests.unit.control.running import Running, Stream, destination, record, source, wait_until


def watching(control: Running) -> Stream:
    """A stream whose loop has taken its bearings: what is appended from now on is new to it."""
    looks = live_events(control.services).looks
    stream = Stream(control)
    assert stream.answer.status == 200
    assert stream.answer.readline() == b"retry: 1000\n"  # the head comes before it is among the watchers, this after
    wait_until(lambda: live_events(control.services).looks > looks)
    return stream


def test_new_events_arrive(control: Running) -> None:
    """An event stored while somebody watches is pushed with its name and status; older ones are not."""
    control.append(record("old"))
    stream = watching(control)
    control.append(record("new", "Signed Up"))
    kind, event = next(stream.events())
    assert (kind, event["messageId"], event["event"]["event"]) == ("event", "new", "Signed Up")
    assert event["status"] == "not_routed"
    stream.close()


def test_from_the_head_on_nothing_is_missed(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has been answered is told what comes next, although the stream takes its bearings only after that."""
    appended, begin = threading.Event(), service.LiveEvents._begin

    async def late(self: service.LiveEvents, *given: Any) -> list[Message]:
        await asyncio.to_thread(appended.wait)
        return await begin(self, *given)

    monkeypatch.setattr(service.LiveEvents, "_begin", late)
    stream = Stream(control)
    control.append(record("new"))
    appended.set()
    assert next(stream.events())[1]["messageId"] == "new"


def test_json_over_several_lines_stays_one_message(control: Running) -> None:
    """A body that its sender wrote with line breaks does not break the stream's framing."""
    stream = watching(control)
    written = record("lines")
    written.body = json.dumps(json.loads(written.body), indent=2).replace("\n", "\r\n").encode()
    control.append(written)
    assert next(stream.events())[1]["event"]["messageId"] == "lines"


def test_every_watcher_gets_every_event(control: Running) -> None:
    """Two streams see the same events."""
    streams = [watching(control), watching(control)]
    control.append(record("m1"))
    assert [next(stream.events())[1]["messageId"] for stream in streams] == ["m1", "m1"]


def test_a_filtered_stream_tells_of_what_matches_alone(control: Running) -> None:
    """The server leaves out what a watcher did not ask for; another watcher gets all the same."""
    looks = live_events(control.services).looks
    filtered, every = Stream(control, query="?event=Order%20Paid&text=CARD-7"), Stream(control)
    for stream in (filtered, every):
        assert stream.answer.readline() == b"retry: 1000\n"
    wait_until(lambda: live_events(control.services).looks > looks)
    control.append(record("m1", "Order Paid"), record("m2", card="card-7"), record("m3", "Order Paid", by="Card-7"))
    assert [next(every.events())[1]["messageId"] for _ in range(3)] == ["m1", "m2", "m3"]
    assert next(filtered.events())[1]["messageId"] == "m3"


def test_a_burst_is_cut_and_counted(control: Running) -> None:
    """Of very many events in one look the newest few are sent, with the number of those left out."""
    stream = watching(control)
    control.append(*(record(f"m{number}") for number in range(100)))
    messages = stream.events()
    kind, data = next(messages)
    assert (kind, data["count"]) == ("skipped", 80)
    assert [next(messages)[1]["messageId"] for _ in range(20)] == [f"m{number}" for number in range(80, 100)]


def test_events_that_stay_open_take_turns(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are looked at in one look, each costs queries for every destination; none is forgotten."""
    monkeypatch.setattr(service, "FOLLOWED_PER_LOOK_MAX", 2)
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/destinations/crm", destination("crm"))
    looks: list[list[tuple[int, int]]] = []
    events_at = EventLog.events_at

    async def noting(self: EventLog, places: list[tuple[int, int]]) -> list[LoggedEvent]:
        looks.append(places)
        return await events_at(self, places)

    monkeypatch.setattr(EventLog, "events_at", noting)
    stream = watching(control)
    control.append(*(record(f"m{number}") for number in range(5)))
    wait_until(lambda: {place for look in looks for place in look} == {(0, offset) for offset in range(5)})
    assert max(map(len, looks)) == 2
    stream.close()


def test_streams_are_bounded(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream too many is 503; when one leaves there is room again."""
    monkeypatch.setattr(service, "WATCHERS_MAX", 2)
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.05)
    streams = [watching(control), watching(control)]
    assert control.api("GET", "/events/stream").json["code"] == "too_many_streams"
    streams[0].close()
    wait_until(lambda: live_events(control.services).watchers < 2)
    watching(control).close()


def test_one_caller_leaves_room_to_the_others(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens as many streams as one may is refused the next; somebody else still gets one."""
    monkeypatch.setattr(service, "WATCHERS_OF_CALLER_MAX", 2)
    streams = [watching(control), watching(control)]
    refused = control.api("GET", "/events/stream").json
    assert refused["code"] == "too_many_streams"
    assert refused["detail"] == "Only 32 streams, 2 of one user or token, may be open at once; close one."
    token = control.api("POST", "/tokens", {"name": "ci", "scope": "read"}).json["text"]
    streams.append(Stream(control, {"Authorization": f"Bearer {token}"}))
    assert streams[2].answer.status == 200
    assert streams[2].answer.readline() == b"retry: 1000\n"
    for stream in streams:
        stream.close()


def test_streams_that_come_together_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that are answered before one of them has begun, no more go on than there may be; the others end."""
    monkeypatch.setattr(service, "WATCHERS_MAX", 2)
    log = EventLog(Settings(data_dir=str(tmp_path)))
    live = service.LiveEvents(log)

    async def watch() -> list[bytes]:
        streams = [await live.watch() for _ in range(5)]
        return [await anext(each, b"") for each in streams]

    begun = asyncio.run(watch())
    log.close()
    assert [bool(each) for each in begun] == [True, True, False, False, False]


def test_a_stop_ends_every_stream(control: Running) -> None:
    """Once a stop begins, streams end by themselves and no new one starts."""
    stream = watching(control)
    control.stop()
    assert list(stream.events()) == []


def test_nobody_watching_costs_nothing(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last watcher left, the journal is not looked at any more."""
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.05)
    stream = watching(control)
    assert live_events(control.services).looking
    stream.close()
    wait_until(lambda: not live_events(control.services).looking)


def test_who_comes_back_is_told_what_came_meanwhile(control: Running) -> None:
    """With the id of the last message it got, a stream begins with what it missed, each once."""
    stream = watching(control)
    control.append(record("m1"))
    assert next(stream.events())[1]["messageId"] == "m1"
    stream.close()
    control.append(record("m2"), record("m3"))
    again = Stream(control, {"Last-Event-ID": "0:0"})
    control.append(record("m4"))
    messages = again.events()
    assert [next(messages)[1]["messageId"] for _ in range(3)] == ["m2", "m3", "m4"]


def test_who_comes_back_late_is_told_how_much_is_left_out(control: Running) -> None:
    """Of very many only the newest few, and the number of the others."""
    control.append(*(record(f"m{number}") for number in range(100)))
    messages = Stream(control, {"Last-Event-ID": "0:9"}).events()
    assert next(messages) == ("skipped", {"count": 70})
    assert next(messages)[1]["messageId"] == "m80"


@pytest.mark.parametrize("position", ["", "x", "0:", "0:99999999999999999999", "7:3", "0:12,"])
def test_an_id_that_names_nothing_begins_now(control: Running, position: str) -> None:
    """What is not an id of ours, or of another journal, is no position."""
    control.append(record("old"))
    stream = Stream(control, {"Last-Event-ID": position})
    wait_until(lambda: live_events(control.services).looks > 0)
    control.append(record("new"))
    assert next(stream.events())[1]["messageId"] == "new"


def test_who_does_not_keep_up_is_told_how_much_was_missed() -> None:
    """The oldest messages of a full queue go, and the events among them are counted before what is left."""

    async def read(watcher: Watcher) -> list[bytes]:
        return [await watcher.next(1) for _ in range(3)]

    watcher = Watcher()
    for number in range(QUEUE_MESSAGES_MAX + 7):
        watcher.put(Message(b"%d" % number, place=(0, number), events=1))
    first, second, third = asyncio.run(read(watcher))
    assert first == b'event: skipped\ndata: {"count":7}\n\n'
    assert (second, third) == (b"7", b"8")
