"""The PHP library's own tests and its style, and each consumer with a real service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients.php.driver import LIBRARY, Driver
from tests.clients.slow_line import SlowLine
from tests.service.deliver.certificates import Authority
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Reply, wait_until, webhook

GOOD = Reply(200, b'{"success": true}', {"Content-Type": "application/json"})
CONSUMERS = ("lib_curl", "fork_curl", "socket")
KILLED = 137
"""How ``strace`` ends when its program was killed, as a shell has it; it may also end itself by the same signal."""
STEPS = ("openat", "rename", "unlink", "fsync", "ftruncate", "flock", "write", "sendto")
"""Calls of the system that the upload program makes on its way."""
STEPS_MAX = 400
FIRST_PROCESS = """
import ctypes, os, sys
PR_SET_CHILD_SUBREAPER = 36
if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Starts a program that orphans below it become children of, as they do of a container's first process."""
EVENTS = 20
EVENT_BYTES = 30_000
BATCH_EVENTS = 17
"""So many fit one request: the upload has two."""


@pytest.mark.slow
def test_its_own_tests_pass() -> None:
    """PHPUnit, with warnings and risky tests as failures."""
    result = subprocess.run(
        ["phpunit"], cwd=LIBRARY, capture_output=True, text=True, timeout=200, check=False, start_new_session=True
    )
    assert result.returncode == 0, result.stdout[-6000:]


def test_its_style_is_psr_12() -> None:
    """phpcs with the standard of the library's phpcs.xml."""
    result = subprocess.run(["phpcs", "-q"], cwd=LIBRARY, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout[-6000:]


def test_every_consumer_delivers(new_hookline: Callable[..., Hookline], receiver: Receiver, tmp_path: Path) -> None:
    """Events arrive without a flush, at the end of the script; a wrong key is heard of in debug."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    for consumer in CONSUMERS:
        with Driver(WRITE_KEY, hookline.collect_port, consumer, gzip=True, timeout=10.0) as driver:
            assert driver.track(consumer, 150) == 150
            assert driver.end() == 0
        with Driver(WRITE_KEY, hookline.collect_port, consumer, debug=True) as driver:
            assert driver.track(f"{consumer}-debug", 1) == 1
            assert driver.ask("flush", seconds=5)["accepted"] == 1
        with Driver("wk_wrong", hookline.collect_port, consumer, debug=True) as driver:
            driver.track("wrong", 1)
            assert driver.ask("told")["codes"] == ["unknown_write_key"]
    log = tmp_path / "app.log"
    with Driver(WRITE_KEY, hookline.collect_port, "file", filename=str(log)) as driver:
        assert driver.track("file", 150) == 150
        options = {"secret": WRITE_KEY, "file": str(log), "endpoint": f"http://127.0.0.1:{hookline.collect_port}"}
        assert driver.ask("upload", options=options) == {"exit": 0}
    expected = {f"{name}-{n}" for name in (*CONSUMERS, "file") for n in range(150)}
    expected |= {f"{name}-debug-0" for name in CONSUMERS}
    wait_until(lambda: {request.message_id for request in receiver.requests} == expected, what="all at the receiver")


def test_socket_speaks_http_1_where_a_proxy_offers_2(tmp_path: Path) -> None:
    """In HTTP/2 whoever closes early takes the request back, and a proxy drops it; this server speaks only 1."""
    authority = Authority(tmp_path)
    context = authority.server()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with Receiver(tls=context) as service:
        service.respond = lambda request: GOOD
        options = {"endpoint": f"https://127.0.0.1:{service.port}", "ca_file": str(authority.file), "timeout": 30.0}
        with Driver(WRITE_KEY, service.port, "socket", **options) as driver:
            driver.track("m", 3)
        wait_until(lambda: len(service.requests) == 3, what="all at the service")
    assert [request.json["batch"][0]["messageId"] for request in service.requests] == ["m-0", "m-1", "m-2"]


def test_fork_curl_leaves_no_zombies_where_it_is_the_first_process() -> None:
    """As in a container without an init: what no parent is left of becomes its child, and it waits for it."""
    with (
        Receiver() as service,
        Driver(WRITE_KEY, service.port, "fork_curl", starter=[sys.executable, "-c", FIRST_PROCESS]) as driver,
    ):
        service.respond = lambda request: GOOD

        def send() -> bool:
            driver.track("m", 1)
            assert driver.ask("flush", seconds=60)["handed_over"] == 1
            return _zombies_of(driver.process.pid) <= 1  # the last one may not have ended when its batch was settled

        for _ in range(5):
            send()
        wait_until(send, what="the others are gone")


def _zombies_of(parent: int) -> int:
    states = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            states.append(file.read_text().rpartition(")")[2].split()[:2])
    return states.count(["Z", str(parent)])


def test_socket_sends_a_large_event_over_tls_on_a_line_with_a_round_trip(tmp_path: Path) -> None:
    """Tickets that arrived at a closed socket would reset the connection, with most of the event still on this side."""
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server()) as service, SlowLine(service.port) as line:
        service.respond = lambda request: GOOD
        options = {"endpoint": f"https://127.0.0.1:{line.port}", "ca_file": str(authority.file), "timeout": 30.0}
        with Driver(WRITE_KEY, line.port, "socket", **options) as driver:
            message = {"userId": "u1", "event": "Large", "messageId": "m1", "properties": {"x": "x" * EVENT_BYTES}}
            assert driver.ask("call", type="track", message=message) == {"messageId": "m1"}
            line.returned.set()
            wait_until(lambda: len(service.requests) == 1, what="it is at the service")
    assert service.requests[0].json["batch"][0]["messageId"] == "m1"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", STEPS)
def test_an_upload_that_is_killed_at_any_step_is_finished_by_the_next(step: str, tmp_path: Path) -> None:
    """Killed at each call of the system in turn: nothing is lost, at most one batch is sent again."""
    with Receiver() as service:
        service.respond = lambda request: GOOD
        for number in range(_first(step, _upload(tmp_path / "whole", service), tmp_path), STEPS_MAX):
            folder = tmp_path / str(number)
            command = _upload(folder, service)
            before = len(service.requests)
            inject = ["-e", f"trace={step}", "-e", f"inject={step}:signal=KILL:when={number}"]
            killed = subprocess.run(["strace", "-qq", "-o", "/dev/null", *inject, *command], timeout=60, check=False)
            assert killed.returncode in (0, -9, KILLED)
            assert subprocess.run(command, timeout=60, check=False).returncode == 0
            sent = [event["messageId"] for request in service.requests[before:] for event in request.json["batch"]]
            assert set(sent) == {f"m{n}" for n in range(EVENTS)}
            assert len(sent) <= EVENTS + BATCH_EVENTS
            assert [path.name for path in folder.iterdir()] == ["app.log.lock"]
            if killed.returncode == 0:
                return
    raise AssertionError(f"the program was killed {STEPS_MAX} times at {step}")


def _upload(folder: Path, service: Receiver) -> list[str]:
    """Write a log and return the command that sends it."""
    folder.mkdir()
    log = folder / "app.log"
    lines = [json.dumps({"messageId": f"m{n}", "x": "x" * EVENT_BYTES}) for n in range(EVENTS)]
    log.write_text("\n".join(lines) + "\n")
    endpoint = f"http://127.0.0.1:{service.port}"
    return ["php", str(LIBRARY / "send.php"), "--secret", "wk", "--file", str(log), "--endpoint", endpoint]


def _first(step: str, command: list[str], folder: Path) -> int:
    """Return which call of the system is the first to name the folder, 1 where none does: PHP opens 150 files before
    the program begins."""
    trace = folder / "trace"
    subprocess.run(["strace", "-qq", "-o", str(trace), "-e", f"trace={step}", *command], timeout=60, check=True)
    lines = trace.read_text().splitlines()
    return next((number for number, line in enumerate(lines, 1) if str(folder) in line), 1)
