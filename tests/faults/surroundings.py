"""What is done to what the service only leans on: whoever reads its log."""

from __future__ import annotations

import os
import signal

from hookline.bench.machine import wait_until
from tests.faults.stage import Stage
from tests.service.harness import Hookline, fill_pipe

BACK_SECONDS_MAX = 60.0


def log_reader(stage: Stage, times: int) -> None:
    """A machine logs into a pipe whose reader stands still and then is gone; a role of it ends in each of the two."""
    for machine in stage.in_turn(stage.machines, times):
        reading, writing = os.pipe()
        stage.inject("log in a pipe that nobody reads")
        machine.stop()
        machine.launch(writing)
        fill_pipe(writing)
        stage.wait_until_collecting(machine)
        _kill(machine, "deliver")
        stage.wait_until_collecting(machine)
        stage.wait_until_level()
        stage.inject("the log's reader is gone")
        os.close(reading)
        _kill(machine, "collect")
        stage.wait_until_collecting(machine)
        stage.wait_until_level()
        os.close(writing)
        machine.stop()
        machine.launch()
        stage.wait_until_collecting(machine)
        stage.wait_until_level()


def _kill(machine: Hookline, role: str) -> None:
    pid = machine.role(role)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: machine.role(role, required=False) not in (0, pid), BACK_SECONDS_MAX, f"{role} is started again")
