"""A copied data folder: started beside its original, under load, with ports of its own."""

from __future__ import annotations

import shutil

from tests.faults.stage import Stage
from tests.service.harness import Hookline


def folders_copied(stage: Stage, times: int) -> None:
    """A copy of one machine's folder after the other is started while that machine works, and stopped again.

    On Kafka it is one more machine, with the original's notes and ring; with a local journal it is refused
    (tests/service/postgres/test_copied_folder.py).
    """
    for number, machine in enumerate(stage.in_turn(stage.machines, times)):
        stage.inject("copied folder started beside its original")
        folder = machine.folder.with_name(f"copy{number}")
        shutil.copytree(machine.data, folder / "data", ignore=shutil.ignore_patterns("run", "lock"))
        ports = {"data_dir", "collect.listen", "control.listen"}
        settings = {key: value for key, value in machine.settings.items() if key not in ports}
        copy = Hookline(folder, machine.destinations, sources=machine.sources, settings=settings)
        copy.launch()
        stage.go_on_for(5.0)
        stage.wait_until_level()
        copy.stop()
        stage.wait_until_level()
