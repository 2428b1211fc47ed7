"""Copies of a data folder made part by part while events come: put somewhere else, or over the original, and started.

Whoever makes them so has no backup, as the docs say; what comes of it is told and nothing that comes later is lost.
``FOLDER_COPIES=N`` makes N copies by each tool, in as many orders; without it each tool makes one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.service.crash.put_back import NOT_PARTS, judge
from tests.service.harness import Hookline, Receiver, free_port, wait_until, webhook

COPIES = int(os.environ.get("FOLDER_COPIES", "1"))
LOAD_EVENTS = 60
"""Sent before the first copy is begun, and during each of them."""


def cp(source: Path, target: Path) -> None:
    """As it is in a script."""
    _run(["cp", "-a", str(source), str(target)])


def tar(source: Path, target: Path) -> None:
    """Through a pipe."""
    packed = subprocess.Popen(["tar", "-C", str(source.parent), "-cf", "-", source.name], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-C", str(target), "-xpf", "-"], stdin=packed.stdout, check=True)
    packed.wait()  # 1: a file changed as it was read


def rsync(source: Path, target: Path) -> None:
    """Over what may be there already."""
    _run(["rsync", "-a", "--delete", str(source), str(target)])


class Copy(NamedTuple):
    """``waited`` was taken before the first part was copied."""

    folder: Path
    order: list[str]
    waited: list[str]


class Load:
    """Posts events until the block ends."""

    def __init__(self, hookline: Hookline) -> None:
        self.taken: list[str] = []
        self._hookline = hookline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._post)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_more(self) -> None:
        """Wait until some more were taken."""
        wanted = len(self.taken) + LOAD_EVENTS
        wait_until(lambda: len(self.taken) >= wanted, 120)

    def _post(self) -> None:
        while not self._stop.is_set():
            self.taken.append(self._hookline.track())


@pytest.mark.timeout(7_200)  # with many copies it is played by hand
def test_copies_made_under_load(tmp_path: Path) -> None:
    """Each is started: what comes is sent, what waited is sent or named, doctor names what is damaged or lost."""
    away = free_port()
    with Receiver() as receiver:
        destinations = [webhook("well", receiver.url()), webhook("away", f"http://127.0.0.1:{away}/")]
        original = Hookline(tmp_path / "original", destinations, settings={"deliver.retry_max": "1s"})
        with original, Load(original) as load:
            copies = [
                take(original.data, tmp_path / f"{seed}-{tool.__name__}", tool, seed, load)
                for seed, tool in enumerate((cp, tar, rsync) * COPIES)
            ]
        rsync(copies[-1].folder / "data", original.folder)
        started = [*((each.folder, each) for each in copies), (original.folder, copies[-1])]
        wrong: dict[tuple[str, ...], str] = {}
        for folder, copy in started:
            hookline = Hookline(folder, destinations, settings={"deliver.retry_max": "1s"})
            found = judge(hookline, away, copy.waited, ["data"])
            print(folder.name, copy.order, found or "as it should be", file=sys.stderr, flush=True)
            if found:
                wrong[folder.name, *copy.order] = found
    assert not wrong


def take(data: Path, folder: Path, tool: Callable[[Path, Path], None], seed: int, load: Load) -> Copy:
    """Copy every part by itself, in an order of the seed's, some more events between each two."""
    load.wait_for_more()
    waited, order = list(load.taken), sorted(path.name for path in data.iterdir())
    order = [name for name in order if not any(fnmatch(name, each) for each in NOT_PARTS)]
    random.Random(seed).shuffle(order)
    (folder / "data").mkdir(parents=True)
    for name in order:
        tool(data / name, folder / "data")
    load.wait_for_more()
    return Copy(folder, order, waited)


def _run(command: list[str]) -> None:
    """Run a tool; that files change or go while it reads them is what it is for here."""
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
