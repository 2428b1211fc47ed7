"""Starting, stopping and owning a data folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.service.client import send
from tests.service.harness import Hookline, Receiver, Reply, new_id, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS

NewHookline = Callable[..., Hookline]


def test_a_second_server_on_the_folder_is_refused(receiver: Receiver, new_hookline: NewHookline) -> None:
    """It exits with 1 and a sentence that names the folder; the first one goes on undisturbed."""
    first = new_hookline(webhook("crm", receiver.url())).start()
    second = new_hookline(settings={"data_dir": str(first.data)})
    assert second.launch().wait(WAIT_SECONDS) == 1
    assert str(first.data) in second.log
    receiver.wait_for(first.track())


def test_sigterm_drains_within_ten_seconds(receiver: Receiver, new_hookline: NewHookline) -> None:
    """SIGTERM while events flow: exit code 0, what was acknowledged arrives now or after the start, once."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    acknowledged: list[str] = []
    stop = threading.Event()

    def stream() -> None:
        while not stop.is_set():
            message_id = new_id()
            try:
                answer = hookline.post("/v1/track", {"userId": "u", "event": "E", "messageId": message_id})
            except OSError:
                return
            if answer.status == 200:
                acknowledged.append(message_id)

    thread = threading.Thread(target=stream)
    thread.start()
    wait_until(lambda: len(acknowledged) > 200)
    code = hookline.stop(10)
    stop.set()
    thread.join()
    hookline.start()
    for message_id in acknowledged:
        receiver.wait_for(message_id)
    receiver.wait_for(hookline.track())
    assert code == 0
    assert [m for m in acknowledged if len(receiver.of(m)) != 1] == []


def test_sigterm_does_not_wait_for_a_hanging_receiver(receiver: Receiver, new_hookline: NewHookline) -> None:
    """A receiver that never answers holds the stop up by no more than the request's own 5 s; the event is kept."""
    receiver.respond = lambda request: Reply(delay_seconds=60)
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = hookline.track()
    receiver.wait_for(message_id)
    assert hookline.stop(10) == 0
    receiver.respond = lambda request: Reply()
    hookline.start()
    hookline.wait_status(message_id, "crm", "delivered")


def test_starting_takes_no_patience(new_hookline: NewHookline) -> None:
    """Starting takes all roles together five seconds of a processor at most (``hookline bench`` measures the time)."""
    hookline = new_hookline().start()
    assert sum(map(cpu_seconds, hookline.members())) < 5
    assert send(hookline.collect_port, "GET", "/healthz").status == 200
    assert send(hookline.control_port, "GET", "/healthz").status == 200


def cpu_seconds(pid: int) -> float:
    """What a process used of a processor so far, which waiting for others' work does not add to."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
