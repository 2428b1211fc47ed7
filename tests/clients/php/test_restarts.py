"""Each consumer while the service is killed and started: what it promises to keep is kept, the rest is counted.

``pytest tests/clients/php --client-events 100000`` sends the full number.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.php.driver import LIBRARY, Driver
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook

QUEUEING = ("lib_curl", "fork_curl")
EVENTS_PER_KILL = 2_500
KILLS_MAX = 20
ARRIVAL_SECONDS = 900.0
UPLOADED = (0, 75)
"""All, or not now: the service is away."""


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_what_each_consumer_promises_holds_while_the_service_is_killed(
    new_hookline: Callable[..., Hookline], receiver: Receiver, client_events: int, tmp_path: Path
) -> None:
    """lib_curl, fork_curl and file lose nothing; socket nothing while the service is up, and counts what it could not
    send."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    kills = min(KILLS_MAX, max(2, client_events // EVENTS_PER_KILL))
    calls = client_events // kills // 3
    log = tmp_path / "app.log"
    with ExitStack() as stack:
        more = {"on_full": "block", "block_timeout": 60.0, "filename": str(log)}
        senders = {
            name: stack.enter_context(Sender(Driver(WRITE_KEY, hookline.collect_port, name, **more), name))
            for name in (*QUEUEING, "socket", "file")
        }
        arrivals = Arrivals(receiver)
        for kill in range(kills):
            all_at_once(senders, f"up{kill}", calls)
            uploads(log, hookline.collect_port)
            for sender in senders.values():
                sender.flush()
                arrivals.wait_for(sender, f"up{kill}")
            all_at_once(senders, f"down{kill}", calls, hookline.kill9)
            uploads(log, hookline.collect_port)
            all_at_once(senders, f"back{kill}", calls, hookline.start)
            killed = threading.Thread(target=uploads, args=(log, hookline.collect_port, kill / 20))
            killed.start()
            killed.join()
        for name in QUEUEING:
            result = senders[name].flush()
            assert result["waiting"] == result["gave_up"] == result["dropped"] == 0, result
            assert senders[name].handed_over == 3 * kills * calls
        wait_until(lambda: uploads(log, hookline.collect_port) == 0 and not log.exists(), what="all uploaded")
        senders["socket"].flush()
        for name in (*QUEUEING, "file"):
            assert senders[name].taken == senders[name].calls
            for kill in range(kills):
                for when in ("up", "down", "back"):
                    arrivals.wait_for(senders[name], f"{when}{kill}")
    socket = senders["socket"]
    assert socket.handed_over == socket.taken
    assert socket.dropped == socket.calls - socket.taken > 0
    lost = socket.taken - len(arrivals.of("socket"))
    print(f"\n{kills} kills, {socket.calls:,} calls of each consumer; lib_curl, fork_curl, file: 0 lost; ", end="")
    print(f"socket: {socket.dropped:,} counted as lost, {lost:,} lost without a word")


def all_at_once(
    senders: dict[str, Sender], prefix: str, calls: int, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Let every client make so many calls, each in its process, while something happens to the service."""
    threads = [threading.Thread(target=sender.send, args=(prefix, calls)) for sender in senders.values()]
    threads.append(threading.Thread(target=meanwhile))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def uploads(log: Path, port: int, killed_after_seconds: float | None = None) -> int:
    """Run the upload program; return how it ended, or kill it after so long."""
    command = ["php", str(LIBRARY / "send.php"), "--secret", WRITE_KEY, "--file", str(log), "--retry-for", "0"]
    process = subprocess.Popen([*command, "--endpoint", f"http://127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        code = process.wait(killed_after_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    assert code in UPLOADED
    return code


class Sender:
    """A client in a process of its own, how many calls it made, and how many it said were taken."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name
        self.calls = self.taken = self.handed_over = self.dropped = 0
        self.taken_of: dict[str, int] = {}

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.__exit__()

    def send(self, prefix: str, calls: int) -> None:
        """Make so many calls."""
        taken = self.driver.track(f"{self.name}-{prefix}", calls)
        self.taken_of[prefix] = taken
        self.calls += calls
        self.taken += taken

    def flush(self) -> dict[str, int]:
        """Bring out what waits; return what became of the events since the last flush."""
        result: dict[str, int] = self.driver.ask("flush", seconds=ARRIVAL_SECONDS)
        self.handed_over += result["handed_over"]
        self.dropped += result["dropped"]
        return result


class Arrivals:
    """The messageIds that the receiver saw, by sender and prefix."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._looked_at = 0
        self._seen: dict[str, set[str]] = {}

    def of(self, name: str) -> set[str]:
        """All messageIds of a sender."""
        self._look()
        return {seen for prefix in self._prefixes(name) for seen in self._seen[prefix]}

    def wait_for(self, sender: Sender, prefix: str) -> None:
        """Wait until everything came that was taken with this prefix."""
        key = f"{sender.name}-{prefix}"

        def all_came() -> bool:
            self._look()
            return len(self._seen.get(key, ())) == sender.taken_of[prefix]

        wait_until(all_came, ARRIVAL_SECONDS, f"{key}: all {sender.taken_of[prefix]} at the receiver")

    def _prefixes(self, name: str) -> Iterator[str]:
        return (prefix for prefix in self._seen if prefix.startswith(f"{name}-"))

    def _look(self) -> None:
        requests = self._receiver.requests[self._looked_at :]
        self._looked_at += len(requests)
        for request in requests:
            self._seen.setdefault(request.message_id.rpartition("-")[0], set()).add(request.message_id)
