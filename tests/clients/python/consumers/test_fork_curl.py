"""What is particular to ``fork_curl``: its processes show nothing, leave nothing behind, and outlive us."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_client import Client, InvalidOption
from tests.clients.python.consumers.conftest import GOOD, port_of
from tests.service.harness import WRITE_KEY, Receiver, free_port, wait_until

NewClient = Callable[..., Client]


@pytest.fixture
def children() -> Callable[[], list[int]]:
    """The processes we started since the test began, zombies too."""
    before = set(_children())
    return lambda: [child for child in _children() if child not in before]


def test_nobody_can_read_the_key_or_the_events(
    silence: socket.socket, new_client: NewClient, children: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc shows a curl without the write key or the payload, though our environment holds the key."""
    monkeypatch.setenv("HOOKLINE_CLIENT_WRITE_KEY", WRITE_KEY)
    new_client(port_of(silence), "fork_curl", batch_size=1, timeout=60.0, max_retries=0).track("u1", "Secret Plan")
    curl = _running_curl(children)
    told = b"".join(Path(f"/proc/{curl}/{name}").read_bytes() for name in ("cmdline", "environ"))
    assert b"curl" in told
    for secret in (WRITE_KEY.encode(), b"d2tf", b"Secret Plan", b"batch"):  # d2tf: how the key begins in Base64
        assert secret not in told


def test_no_file_of_it_has_a_name(
    silence: socket.socket, new_client: NewClient, children: Callable[[], list[int]]
) -> None:
    """While a process runs, the folder for temporary files holds nothing of it."""
    before = set(os.listdir(tempfile.gettempdir()))
    new_client(port_of(silence), "fork_curl", batch_size=1, timeout=60.0, max_retries=0).track("u1", "Test")
    curl = _running_curl(children)
    opened = _open(curl)
    assert not {Path(name).name for name in opened} & (set(os.listdir(tempfile.gettempdir())) - before)
    assert any("memfd:hookline" in name for name in opened)


def test_no_zombies(service: Receiver, new_client: NewClient, children: Callable[[], list[int]]) -> None:
    """After ten batches this process has no child left, and waited for all of them."""
    client = new_client(service.port, "fork_curl", batch_size=1)
    for _ in range(10):
        client.track("u1", "Test")
    assert client.flush().handed_over == 10
    assert children() == []


def test_a_closed_client_leaves_no_zombie(
    silence: socket.socket, new_client: NewClient, children: Callable[[], list[int]]
) -> None:
    """A process that goes on after close is waited for all the same."""
    client = new_client(port_of(silence), "fork_curl", batch_size=1, timeout=60.0, max_retries=0)
    client.track("u1", "Test")
    wait_until(lambda: children())
    assert client.close().handed_over == 1
    assert len(children()) == 1
    silence.close()
    wait_until(lambda: children() == [], what="the process gone and waited for")


def test_the_end_of_the_process_waits_for_nothing_and_loses_nothing() -> None:
    """250 events at exit while the service is away: the interpreter ends, and they arrive when the service is back."""
    port = free_port()
    program = (
        "from hookline_client import Client\n"
        f"client = Client({WRITE_KEY!r}, endpoint='http://127.0.0.1:{port}', consumer='fork_curl')\n"
        "for _ in range(250): client.track('u1', 'Test')\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    with Receiver(port=port) as back:
        back.respond = lambda request: GOOD
        wait_until(lambda: _events(back) == 250, what="all events once the service is back")


def test_the_last_process_tries_again_when_it_was_cut_off(new_client: NewClient) -> None:
    """A service that is killed in the middle of the last request gets it when it is back."""
    with socket.create_server(("127.0.0.1", 0)) as killed:
        client = new_client(port_of(killed), "fork_curl")
        client.track("u1", "Test")
        assert client.close().handed_over == 1
        connection, _ = killed.accept()
        with connection:
            connection.recv(65_536)
        port = port_of(killed)
    with Receiver(port=port) as back:
        back.respond = lambda request: GOOD
        wait_until(lambda: _events(back) == 1, what="the event once the service is back")


def test_more_than_one_process_may_hold_is_sent(service: Receiver, new_client: NewClient) -> None:
    """Closing with more batches than files may be open spreads them over processes."""
    client = new_client(service.port, "fork_curl", batch_size=1)
    for _ in range(150):
        client.track("u1", "Test")
    assert client.close().handed_over == 150
    # By their ids: a process may send one again whose answer it did not see, and the service knows it by its id.
    wait_until(
        lambda: len({event["messageId"] for sent in service.requests for event in sent.json["batch"]}) == 150, 90
    )


def test_without_curl_it_cannot_be_chosen(new_client: NewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client says so when it is made, not in a thread later."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidOption, match="install it"):
        new_client(1, "fork_curl")


def test_curl_that_cannot_be_started_is_counted(
    new_client: NewClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program went away: its events are given up with a code, and the caller is not troubled."""
    program = tmp_path / "curl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    told: list[str] = []
    client = new_client(1, "fork_curl", max_retries=0, error_handler=lambda code, message: told.append(code))
    program.unlink()
    assert client.track("u1", "Test")
    assert client.flush().gave_up == 1
    assert told == ["curl_failed"]


def test_no_room_for_the_events_is_counted(service: Receiver, new_client: NewClient) -> None:
    """Nothing can be written: the events are given up with a code, and once there is room others leave."""
    client = new_client(service.port, "fork_curl", max_retries=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        client.track("u1", "Test")
        result = client.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [receipt.code for receipt in result.receipts] == ["curl_failed"]
    client.track("u1", "Test")
    assert client.flush().handed_over == 1


def test_a_forked_child_has_its_own_processes(service: Receiver, new_client: NewClient) -> None:
    """The child sends what it queued, and only that; the parent what it had."""
    client = new_client(service.port, "fork_curl")
    client.track("parent", "Test")
    child = os.fork()
    if child == 0:
        client.track("child", "Test")
        os._exit(0 if client.flush(10.0).handed_over == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.flush().handed_over == 1
    assert sorted(item["userId"] for request in service.requests for item in request.json["batch"]) == [
        "child",
        "parent",
    ]


def _events(service: Receiver) -> int:
    return sum(len(request.json["batch"]) for request in service.requests)


def test_a_fork_while_a_process_runs(
    silence: socket.socket, new_client: NewClient, children: Callable[[], list[int]]
) -> None:
    """The child has nothing of it open and does not wait for it; the parent's goes on."""
    client = new_client(port_of(silence), "fork_curl", batch_size=1, timeout=60.0, max_retries=0)
    client.track("parent", "Test")
    curl = _running_curl(children)
    pipes = [at for at in _open(curl) if "pipe:" in at]
    # Its program may run before whoever started it knows of it.
    wait_until(lambda: not set(pipes).isdisjoint(_waited_for()), what="the client waits for it")
    child = os.fork()
    if child == 0:
        os._exit(1 if set(pipes) & set(_open(os.getpid())) else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert curl in children()


def _running_curl(children: Callable[[], list[int]]) -> int:
    """Our one child, once it is a curl that waits for its answer: then it has opened what it opens."""

    def waits() -> int:
        for child in children():
            if b"curl" in Path(f"/proc/{child}/cmdline").read_bytes() and any("socket:" in at for at in _open(child)):
                return child
        return 0

    return wait_until(waits)


def _waited_for() -> list[str]:
    """Return what the selectors of this process wait for."""
    found: list[str] = []
    for selector in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just then
            for number in re.findall(r"^tfd: +(\d+)", selector.read_text(), re.MULTILINE):
                found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


def _open(child: int) -> list[str]:
    """What a process has open. A file that it closes just then is left out."""
    found: list[str] = []
    for number in os.listdir(f"/proc/{child}/fd"):
        try:
            found.append(os.readlink(f"/proc/{child}/fd/{number}"))
        except FileNotFoundError:
            pass
    return found


def _children() -> list[int]:
    found: list[int] = []
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended; its children are another one's then
            found += map(int, children.read_text().split())
    return found


def _events(service: Receiver) -> int:
    return sum(len(request.json["batch"]) for request in service.requests)
