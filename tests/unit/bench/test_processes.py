"""Processes are found with and without ``ps``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from hookline.bench import machine as room
from hookline.bench.machine import TERMINATED, Process
from tests.service.waiting import wait_until


@pytest.mark.parametrize("listed", [room.processes, room._by_ps])
def test_a_process_is_found_until_it_has_ended(listed: Callable[[], Iterator[Process]]) -> None:
    """With its parent, group, state and arguments; one that nobody has waited for is a zombie."""
    line = [sys.executable, "-c", "input('a mark')"]
    child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0)

    def found() -> list[Process]:
        return [each for each in listed() if each.pid == child.pid]

    assert child.stdin is not None
    wait_until(lambda: [each.arguments for each in found()] == [" ".join(line)])
    assert (found()[0].parent, found()[0].group) == (os.getpid(), child.pid)
    assert found()[0].state[0] not in "ZX"
    child.stdin.close()
    wait_until(lambda: [each.state[0] for each in found()] == ["Z"])
    child.wait()
    assert found() == []


def test_sigterm_leaves_no_program_behind() -> None:
    """Nor one that was just being started, of which nobody has a note yet."""
    program = """
import signal, subprocess
from hookline.bench.machine import leave_on_sigterm
leave_on_sigterm()
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGTERM)
        assert parent.wait() == TERMINATED
    wait_until(lambda: [each.state for each in room.processes() if each.pid == child and each.state != "Z"] == [])
