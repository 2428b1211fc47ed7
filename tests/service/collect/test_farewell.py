"""How collect goes: calls go elsewhere in time, and none that was begun is lost or reset."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.service.client import basic, send
from tests.service.collect.raw_socket import RawSocket
from tests.service.fronts import FRONTS
from tests.service.harness import WRITE_KEY, Hookline, is_ready, new_id, wait_until

NewHookline = Callable[..., Hookline]
RESTARTS = int(os.environ.get("HOOKLINE_TEST_RESTARTS", "1"))
"""Behind each front; the whole table takes 10."""
CALLS_PER_SECOND = int(os.environ.get("HOOKLINE_TEST_CALLS_PER_SECOND", "100"))
"""The whole table takes 1,000."""
CLIENTS = 8
BODY = b'{"userId": "u", "event": "E"}'
HEAD = b"POST /v1/track HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n" % (
    basic(WRITE_KEY)["Authorization"].encode(),
    len(BODY),
)


class Calls:
    """Clients that call at an even rate over kept connections, and what came of it."""

    def __init__(self, port: int) -> None:
        self.outcomes: Counter[int | str] = Counter()
        self.slowest_seconds = 0.0
        self._port = port
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(CLIENTS)]

    def __enter__(self) -> Calls:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, calls: int) -> None:
        """Wait for so many calls more."""
        wanted = self.outcomes.total() + calls
        wait_until(lambda: self.outcomes.total() >= wanted, 60, "calls are answered")

    def _call(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {**basic(WRITE_KEY), "Content-Type": "application/json"}
        pause = CLIENTS / CALLS_PER_SECOND
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                connection.request("POST", "/v1/track", BODY, headers)
                answer = connection.getresponse()
                answer.read()
                outcome: int | str = answer.status
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                outcome = type(error).__name__
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
            self.outcomes[outcome] += 1


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """One service for the tests that end a role of it: each leaves behind one that is ready."""
    with Hookline(tmp_path_factory.mktemp("farewell")) as running:
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def restarted(hookline: Hookline) -> None:
    """End the role in order and wait for the next one."""
    before = hookline.role("collect")
    os.kill(before, signal.SIGTERM)
    wait_for_the_next(hookline, before)


def wait_for_the_next(hookline: Hookline, before: int) -> None:
    """Wait until another process is the role, and ready; who asks meanwhile waits, and is not refused."""
    wait_until(lambda: hookline.role("collect", required=False) not in (0, before), what="the next role")
    wait_until(lambda: send(hookline.collect_port, "GET", "/readyz").status == 200, what="it is ready")


@pytest.mark.parametrize("name", FRONTS)
def test_a_restarted_role_is_not_noticed_behind(name: str, tmp_path: Path, hookline: Hookline) -> None:
    """The supervisor keeps the socket: of calls that go on through its restarts all are answered 200."""
    with FRONTS[name](tmp_path, [hookline.collect_port]) as front, Calls(front.port) as calls:
        for _ in range(RESTARTS):
            calls.go_on(CALLS_PER_SECOND // 2)
            restarted(hookline)
        calls.go_on(CALLS_PER_SECOND // 2)
    print(f"\n{name}: {dict(calls.outcomes)}, slowest {calls.slowest_seconds:.2f} s")
    assert set(calls.outcomes) == {200}, (calls.outcomes, front.log[-2000:])


@pytest.mark.parametrize("name", FRONTS if "HOOKLINE_TEST_RESTARTS" in os.environ else ["haproxy"])
def test_two_that_end_in_turn_are_not_noticed_behind(name: str, tmp_path: Path, new_hookline: NewHookline) -> None:
    """Whole services behind one front, of which one at a time ends and is started again: all calls are answered 200."""
    both = [new_hookline(settings={"collect.drain_delay": "3s"}).start() for _ in range(2)]
    with FRONTS[name](tmp_path, [each.collect_port for each in both]) as front, Calls(front.port) as calls:
        for number in range(RESTARTS):
            calls.go_on(CALLS_PER_SECOND // 2)
            both[number % 2].restart()
        calls.go_on(CALLS_PER_SECOND // 2)
    print(f"\n{name}: {dict(calls.outcomes)}, slowest {calls.slowest_seconds:.2f} s")
    assert set(calls.outcomes) == {200}, (calls.outcomes, front.log[-2000:])


def test_control_is_ready_all_through_its_restart(hookline: Hookline) -> None:
    """Whoever asks ``/readyz`` of control while the supervisor starts it again is answered 200 each time."""
    before, answers = hookline.role("control"), Counter[int]()

    def another_is_ready() -> bool:
        answers[send(hookline.control_port, "GET", "/readyz").status] += 1
        return hookline.role("control", required=False) not in (0, before)

    os.kill(before, signal.SIGTERM)
    wait_until(another_is_ready, what="the next role")
    another_is_ready()
    assert set(answers) == {200}


def test_it_says_so_and_serves_on_before_it_ends(new_hookline: NewHookline) -> None:
    """For ``collect.drain_delay`` from SIGTERM on ``/readyz`` is 503, calls on old and new connections are taken, and
    each answer is the last of its connection; then the port is closed."""
    hookline = new_hookline(settings={"collect.drain_delay": "2s"}).start()
    with RawSocket(hookline.collect_port) as kept:
        kept.write(HEAD + BODY)
        first = kept.answer()
        hookline.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
        wait_until(lambda: send(hookline.collect_port, "GET", "/readyz").json.get("code") == "stopping")
        kept.write(HEAD + BODY)
        last, fresh = kept.answer(), hookline.post("/v1/track", BODY)
        assert first is not None
        assert last is not None
        assert [each.headers.get("connection") for each in (first, last, fresh)] == [None, "close", "close"]
        assert (last.status, fresh.status) == (200, 200)
        assert kept.closed()
    assert hookline.process.wait(30) == 0  # type: ignore[union-attr]
    with pytest.raises(ConnectionRefusedError):
        hookline.post("/v1/track", BODY)


def test_nothing_that_had_its_handshake_is_reset(new_hookline: NewHookline) -> None:
    """Connections that wait to be accepted when the service is stopped are accepted and answered, on both ports."""
    hookline = new_hookline().start()
    stopped = [hookline.role(name) for name in ("collect", "control")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    waiting = [RawSocket(port) for port in (hookline.collect_port, hookline.control_port) for _ in range(25)]
    for each in waiting:
        each.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    hookline.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    answers = [each.answer() for each in waiting]
    assert Counter(each and each.status for each in answers) == {200: 50}
    assert hookline.process.wait(30) == 0  # type: ignore[union-attr]


def test_idle_connections_are_kept_as_long_as_is_set(new_hookline: NewHookline) -> None:
    """``collect.idle_timeout`` and ``control.idle_timeout`` say after how long the service closes one that was used."""
    hookline = new_hookline(settings={"collect.idle_timeout": "2s", "control.idle_timeout": "2s"}).start()
    for port in (hookline.collect_port, hookline.control_port):
        with RawSocket(port) as used:
            used.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answered, answer = time.monotonic(), used.answer()
            assert answer is not None
            assert "connection" not in answer.headers
            assert used.closed()
            assert time.monotonic() - answered > 1.4  # collect's clock goes in half seconds


def test_an_upload_keeps_nobody_waiting(hookline: Hookline) -> None:
    """While a body is still arriving others are served; it has three seconds before the restart goes on without it."""
    before = hookline.role("collect")
    with RawSocket(hookline.collect_port) as upload:
        upload.write(HEAD + BODY[:5])
        os.kill(before, signal.SIGTERM)
        wait_until(lambda: send(hookline.collect_port, "GET", "/readyz").headers.get("connection") == "close")
        assert is_ready(hookline.collect_port)  # a balancer would have nobody else to ask
        assert hookline.post("/v1/track", BODY).status == 200
        upload.write(BODY[5:])
        answer = upload.answer()
    assert answer is not None
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    wait_for_the_next(hookline, before)


def test_a_role_that_cannot_start_refuses(new_hookline: NewHookline) -> None:
    """Who connects waits for a role that is started again, but not for one that fails each time."""
    hookline = new_hookline().start()
    journal = hookline.data / "journal"
    journal.rename(hookline.data / "elsewhere")
    journal.write_text("no folder")
    os.kill(hookline.role("collect"), signal.SIGKILL)

    def is_refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", hookline.collect_port)) != 0

    wait_until(is_refused)
    journal.unlink()
    (hookline.data / "elsewhere").rename(journal)
    wait_until(lambda: not is_refused())
    hookline.wait_ready()
    assert hookline.track(message_id=new_id())


def test_who_is_told_to_end_again_and_again_has_not_failed(hookline: Hookline) -> None:
    """Each restart follows at once: only a role that failed waits longer each time, and refuses in the end."""

    def at_once() -> int:
        return hookline.log.count("collect ended with code 0; starting it again in 0.1 s")

    before = at_once()
    for _ in range(3):
        restarted(hookline)
        hookline.track()
    assert at_once() - before == 3
