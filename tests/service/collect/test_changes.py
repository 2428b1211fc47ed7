"""Connection changes by the API while events flow: in force soon, nothing lost, nothing repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS

CASES = ("new", "toggled", "moved", "switched")
PAUSE_SECONDS = 0.01


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """One service with a source for each test that does not stop it; each adds its destinations."""
    sources = [{"id": case, "name": case, "type": "server", "writeKeys": [f"wk_{case}"]} for case in CASES]
    with Hookline(tmp_path_factory.mktemp("changes"), sources=sources) as running:
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def add(hookline: Hookline, destination: str, source: str, url: str) -> None:
    """Make a destination of a source; it is in force when this returns."""
    answer = hookline.api("POST", "destinations", webhook(destination, url, sources=[source]))
    assert answer.status == 201, answer


class Stream:
    """Events sent one after the other: ``sent`` lists (moment before sending, messageId) of acknowledged ones."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str]] = []
        self.refused: list[tuple[float, int]] = []

    def ids(self, since: float = 0.0) -> list[str]:
        """The ids of the events sent at or after a monotonic moment."""
        return [message_id for at, message_id in self.sent if at >= since]


@contextmanager
def streaming(hookline: Hookline, source: str) -> Iterator[Stream]:
    """Send events of a source, one after the other, from a thread of their own."""
    stream, stop = Stream(), threading.Event()

    def run() -> None:
        while not stop.wait(PAUSE_SECONDS):
            at, message_id = time.monotonic(), new_id()
            event = {"userId": "u", "event": "E", "messageId": message_id}
            answer = hookline.post("/v1/track", event, key=f"wk_{source}")
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


def test_a_new_destination_gets_everything_from_then_on(receiver: Receiver, hookline: Hookline) -> None:
    """Each event sent after the POST returned reaches the new destination; the old one loses and repeats nothing."""
    add(hookline, "old", "new", receiver.url("/old"))
    with streaming(hookline, "new") as stream:
        add(hookline, "new", "new", receiver.url("/new"))
        returned = time.monotonic()
        more(stream, 1.0)
    wait_all(receiver, "/old", stream.ids())
    wait_all(receiver, "/new", stream.ids(returned))


def test_toggling_a_destination_disturbs_nobody(receiver: Receiver, hookline: Hookline) -> None:
    """Off, on, off, on by the API: off soon and until it is on, on at once, its neighbour sees nothing of it."""
    for name in ("steady", "toggled"):
        add(hookline, name, "toggled", receiver.url(f"/{name}"))
    with streaming(hookline, "toggled") as stream:
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


def test_a_changed_url_is_used_soon(receiver: Receiver, hookline: Hookline) -> None:
    """Every event arrives once, at the old address or the new one; once the new one is used, only there."""
    add(hookline, "moved", "moved", receiver.url("/before"))
    with streaming(hookline, "moved") as stream:
        change = {"settings": {"webhooks": [{"url": receiver.url("/after")}]}}
        assert hookline.api("PATCH", "destinations/moved", change).status == 200
        wait_until(lambda: arrivals(receiver, "/after"), what="the new address in use")
        changed = time.monotonic()
        more(stream, 1.0)

    def everywhere() -> list[str]:
        return arrivals(receiver, "/before") + arrivals(receiver, "/after")

    wait_until(lambda: not set(stream.ids()) - set(everywhere()))
    assert sorted(everywhere()) == sorted(stream.ids())
    assert not set(stream.ids(changed)) & set(arrivals(receiver, "/before"))


def test_a_source_is_switched_off_and_on(receiver: Receiver, hookline: Hookline) -> None:
    """A disabled source's key is soon answered 401; enabled again it works, and nothing acknowledged is lost."""
    add(hookline, "switched", "switched", receiver.url("/switched"))
    with streaming(hookline, "switched") as stream:
        assert hookline.api("PATCH", "sources/switched", {"enabled": False}).status == 200
        wait_until(lambda: bool(stream.refused), what="401")
        assert hookline.api("PATCH", "sources/switched", {"enabled": True}).status == 200
        again = time.monotonic()
        wait_until(lambda: bool(stream.ids(again)), what="200")
    assert {status for _, status in stream.refused} == {401}
    wait_all(receiver, "/switched", stream.ids())


def test_changes_survive_kill_and_the_file_does_not_undo_them(
    receiver: Receiver, new_hookline: Callable[..., Hookline]
) -> None:
    """What the API made is still there after kill -9 and a start with the same connections file."""
    hookline = new_hookline(webhook("crm", receiver.url("/crm"))).start()
    assert hookline.api("PUT", "destinations/extra", webhook("extra", receiver.url("/extra"))).status in (200, 201)
    hookline.kill9()
    hookline.start()
    message_id = hookline.track()
    wait_all(receiver, "/crm", [message_id])
    wait_all(receiver, "/extra", [message_id])
