"""A power cut sets back the file that tells readers how far the journal is durable: nothing synchronises it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.service.harness import Hookline, Receiver, is_ready, webhook
from tests.service.waiting import wait_until

EVENTS = 20


@contextmanager
def role(hookline: Hookline, name: str) -> Iterator[None]:
    """One role by itself, as people run it on many machines."""
    log = (hookline.folder / "log").open("ab")
    command = [sys.executable, "-m", "hookline.cli.main", name, "--config", str(hookline.folder / "hookline.yaml")]
    process = subprocess.Popen(command, env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        log.close()


def test_deliver_does_not_believe_an_end_before_its_own_place(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Started before collect, it waits until the journal's true end is found, and sends nothing a second time."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        sent = [hookline.track() for _ in range(EVENTS)]
        wait_until(lambda: len(receiver.requests) == EVENTS)
    (hookline.data / "journal" / "0" / "end").write_bytes(bytes(8))
    (hookline.data / "progress.ring").unlink()  # what it remembers would hide the mistake, as far as it goes back
    with role(hookline, "control"), role(hookline, "deliver"):
        wait_until(lambda: "waiting_for_journal" in hookline.log)
        with role(hookline, "collect"):
            wait_until(lambda: is_ready(hookline.collect_port))
            sent.append(hookline.track())
            receiver.wait_for(sent[-1])
    assert Counter(request.message_id for request in receiver.requests) == Counter(sent)
