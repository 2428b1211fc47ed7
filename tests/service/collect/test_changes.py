"""Connection changes by the API while events flow: in force soon, nothing lost, nothing repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS

NewHookline = Callable[..., Hookline]


class Stream:
    """Events sent one after the other: ``sent`` lists (moment before sending, messageId) of acknowledged ones."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str]] = []
        self.refused: list[tuple[float, int]] = []

    def ids(self, since: float = 0.0) -> list[str]:
        """The ids of the events sent at or after a monotonic moment."""
        return [message_id for at, message_id in self.sent if at >= since]


@contextmanager
def streaming(hookline: Hookline) -> Iterator[Stream]:
    """Send events without a pause from a thread of their own."""
    stream, stop = Stream(), threading.Event()

    def run() -> None:
        while not stop.is_set():
            at, message_id = time.monotonic(), new_id()
            answer = hookline.post("/v1/track", {"userId": "u", "event": "E", "messageId": message_id})
            if answer.status == 200:
                stream.sent.append((at, message_id))
            else:
                stream.refused.append((at, answer.status))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: len(stream.sent) > 10)
        yield stream
    finally:
        stop.set()
        thread.join()


def more(stream: Stream, seconds: float) -> None:
    """Wait until events have been flowing for that long."""
    until = time.monotonic() + seconds
    wait_until(lambda: bool(stream.ids(until)), seconds + WAIT_SECONDS)


def arrivals(receiver: Receiver, path: str) -> list[str]:
    return [request.message_id for request in receiver.requests if request.path == path]


def wait_all(receiver: Receiver, path: str, ids: list[str]) -> None:
    """Wait until every id arrived at the path, then assert that none came twice."""
    wait_until(lambda: not set(ids) - set(arrivals(receiver, path)), what=f"{len(ids)} events at {path}")
    got = arrivals(receiver, path)
    assert len(got) == len(set(got)), "repeated"


def test_a_new_destination_gets_everything_from_then_on(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Each event sent after the POST returned reaches the new destination; the old one loses and repeats nothing."""
    hookline = new_hookline(webhook("old", receiver.url("/old"))).start()
    with streaming(hookline) as stream:
        answer = hookline.api("POST", "destinations", webhook("new", receiver.url("/new")))
        assert answer.status == 201, answer
        returned = time.monotonic()
        more(stream, 1.0)
    wait_all(receiver, "/old", stream.ids())
    wait_all(receiver, "/new", stream.ids(returned))


def test_toggling_a_destination_disturbs_nobody(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Off, on, off, on by the API: off soon and until it is on, on at once, its neighbour sees nothing of it."""
    hookline = new_hookline(webhook("steady", receiver.url("/steady")), webhook("toggled", receiver.url("/toggled")))
    hookline.start()
    with streaming(hookline) as stream:
        for _ in range(3):
            assert hookline.api("PATCH", "destinations/toggled", {"enabled": False}).status == 200
            off = wait_until(lambda: off_since(stream, receiver, "/toggled", "/steady"), what="nothing at /toggled")
            more(stream, 0.5)
            unwanted = set(stream.ids(off))
            assert hookline.api("PATCH", "destinations/toggled", {"enabled": True}).status == 200
            on = time.monotonic()
            more(stream, 0.3)
            wait_all(receiver, "/toggled", stream.ids(on))
            assert unwanted
            assert not unwanted & set(arrivals(receiver, "/toggled"))
    wait_all(receiver, "/steady", stream.ids())


def off_since(stream: Stream, receiver: Receiver, path: str, other: str) -> float:
    """A moment from which on half a second of events came to the other path and none to this one; 0.0 if some did."""
    since = time.monotonic()
    more(stream, 0.5)
    ids = stream.ids(since)
    wait_all(receiver, other, ids)
    return 0.0 if set(ids) & set(arrivals(receiver, path)) else since


def test_a_changed_url_is_used_soon(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Every event arrives once, at the old address or the new one; once the new one is used, only there."""
    hookline = new_hookline(webhook("crm", receiver.url("/before"))).start()
    with streaming(hookline) as stream:
        change = {"settings": {"webhooks": [{"url": receiver.url("/after")}]}}
        assert hookline.api("PATCH", "destinations/crm", change).status == 200
        wait_until(lambda: arrivals(receiver, "/after"), what="the new address in use")
        changed = time.monotonic()
        more(stream, 1.0)

    def everywhere() -> list[str]:
        return arrivals(receiver, "/before") + arrivals(receiver, "/after")

    wait_until(lambda: not set(stream.ids()) - set(everywhere()))
    assert sorted(everywhere()) == sorted(stream.ids())
    assert not set(stream.ids(changed)) & set(arrivals(receiver, "/before"))


def test_a_source_is_switched_off_and_on(receiver: Receiver, new_hookline: NewHookline) -> None:
    """A disabled source's key is soon answered 401; enabled again it works, and nothing acknowledged is lost."""
    hookline = new_hookline(webhook("crm", receiver.url("/crm"))).start()
    with streaming(hookline) as stream:
        assert hookline.api("PATCH", "sources/site", {"enabled": False}).status == 200
        wait_until(lambda: bool(stream.refused), what="401")
        assert hookline.api("PATCH", "sources/site", {"enabled": True}).status == 200
        again = time.monotonic()
        wait_until(lambda: bool(stream.ids(again)), what="200")
    assert {status for _, status in stream.refused} == {401}
    wait_all(receiver, "/crm", stream.ids())


def test_changes_survive_kill_and_the_file_does_not_undo_them(receiver: Receiver, new_hookline: NewHookline) -> None:
    """What the API made is still there after kill -9 and a start with the same connections file."""
    hookline = new_hookline(webhook("crm", receiver.url("/crm"))).start()
    assert hookline.api("PUT", "destinations/extra", webhook("extra", receiver.url("/extra"))).status in (200, 201)
    hookline.kill9()
    hookline.start()
    message_id = hookline.track()
    wait_all(receiver, "/crm", [message_id])
    wait_all(receiver, "/extra", [message_id])
