"""What holds for all tests: generated cases are the same in every run and have no deadline.

So a change is judged by what it changes. ``make hunt`` looks for new cases: it has a profile of Hypothesis, and options
for how many seeds, cases and kills there are.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.clients.languages import left_out

settings.register_profile("hunt", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile("ci")

WITH_SERVICES = ("tests/clients/", "tests/fuzz/test_living", "tests/service/", "tests/ui/")
"""Tests that start services, browsers and SDKs, and mostly wait for them."""
WITH_BROKERS = ("tests/kafka/test_failures.py", "tests/kafka/test_m", "tests/kafka/test_p"), ("tests/kafka/",)
"""Two pieces of about the same length, each with one cluster, for its tests kill the brokers; the longest of all, so
they come first of their end."""
LONGEST = (
    "tests/service/crash/test_crash_points.py",
    "tests/ui/test_screens.py",
    "tests/service/privacy/test_deletion.py",
    "tests/service/profiles/test_audience.py",
    "tests/service/crash/test_kills.py",
    "tests/service/crash/test_set_clock.py",
    "tests/service/postgres/test_turns.py",
    "tests/ui/test_hostile_content.py",
    "tests/service/postgres/test_going_back.py",
    "tests/clients/python/test_versions.py",
    "tests/clients/php/",
    "tests/ui/test_definitions.py",
    "tests/service/profiles/test_role.py",
    "tests/service/postgres/test_trouble.py",
    "tests/service/cli/test_bench.py",
    "tests/service/upgrade/test_connections_unread.py",
    "tests/service/control/test_hostile_clients.py",
    "tests/service/crash/test_power_cut.py",
    "tests/service/postgres/test_pooler.py",
    "tests/service/collect/test_budget.py",
    "tests/service/deliver/test_isolation.py",
    "tests/service/crash/test_locked_files.py",
    "tests/service/deliver/test_outages.py",
    "tests/deploy/test_systemd_runs.py",
    "tests/fuzz/",
    "tests/unit/deliver/test_checkpoint_model.py",
    "tests/worlds/test_seeds.py",
    "tests/unit/features/accounts/",
    "tests/unit/simulation/",
    "tests/unit/database/",
)
"""Files that take longer than others: they come first, the longest at once, for all processes are to end together, and
who takes one of them as the last file of all works on alone."""
SHARE_WITH_SERVICES = 0.6
"""Of the processes: those that wait for services. The others' work takes the machine whenever these wait."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is collected, neither now nor later: it stays, and each look through it would take as
    long as some tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the client libraries whose language cannot be had here."""
    return True if any(collection_path.as_posix().endswith(f"/{folder}") for folder in left_out()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with services at one end and all others at the other, the longest files outermost."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, int]:
    name = item.nodeid
    number = next((number for number, start in enumerate(LONGEST) if name.startswith(start)), len(LONGEST))
    if name.startswith(WITH_SERVICES):
        return 0, number
    cluster = _cluster(name)
    return (1, -number) if cluster is None else (2, cluster)


def _cluster(name: str) -> int | None:
    """Which cluster of brokers a test is for, if it is for one."""
    return next((number for number, starts in enumerate(WITH_BROKERS) if name.startswith(starts)), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Some processes of ``make test`` take file after file from the beginning, where the services are, the others from
    the end, until they meet."""
    from xdist.scheduler import LoadScopeScheduling

    class FromBothEnds(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            cluster = _cluster(nodeid)
            return nodeid.partition("::")[0] if cluster is None else f"cluster {cluster}"

        def _assign_work_unit(self, node: Any) -> None:
            if (self.nodes.index(node) + 1) / len(self.nodes) > SHARE_WITH_SERVICES:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node: Any) -> str | None:
            """Name the test that its process ended in, if one did; it would end the next process, too.

            Only what is left goes back: files that are done, as the class above has it, would be given out as work
            without any test, and a process that gets no test asks for no more.
            """
            work = self.assigned_work.pop(node).items()
            left = [(scope, name) for scope, unit in work for name, is_done in unit.items() if not is_done]
            for scope, name in left[1:]:
                self.workqueue.setdefault(scope, {})[name] = False
            for each in self.nodes:
                self._reschedule(each)
            return left[0][1] if left else None

    return FromBothEnds(config, log) if config.getoption("dist") == "loadscope" else None


MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 8 << 30
"""Tests use less than half of it; the rest is for processes."""


def pytest_configure(config: pytest.Config) -> None:
    """Have ``make check`` end in time, however much has changed; and write to memory, where there is much of it.

    Whatever ends a process in a test leaves the system running, so what is written is as safe there; tests of full and
    failing disks make their own. With ``TMPDIR`` it is written there.
    """
    if "TMPDIR" not in os.environ and _free_memory_bytes() >= FREE_BYTES_MIN:
        folder = _new_folder()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if (seconds := config.getoption("--within")) is not None:
        config.pluginmanager.register(Within(seconds))


def _new_folder() -> Path:
    """Make a folder with a short name: what is in it has sockets, whose paths may have 107 bytes."""
    for number in count():
        folder = MEMORY / f"t{number}"
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("numbers do not end")


def _free_memory_bytes() -> int:
    try:
        known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return min(shutil.disk_usage(MEMORY).free, int(known["MemAvailable"].split()[0]) * 1024)
    except OSError:  # not on Linux
        return 0


class Within:
    """Skips what is not reached in time, and so has it counted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = 0.0

    def pytest_runtest_setup(self) -> None:
        """Look at the clock before each test; it goes from the first one on."""
        self._ends = self._ends or time.monotonic() + self._seconds
        if time.monotonic() > self._ends:
            pytest.skip(f"not reached within {self._seconds:g} s")


def pytest_report_header() -> list[str]:
    """Say what is left out on this machine."""
    return [f"left out: {folder} ({why})" for folder, why in left_out().items()]


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long all tests may take, and the fuzz tests, with which cases these begin; how much the clients send."""
    parser.addoption("--within", type=float, help="skip what is not reached within so many seconds")
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        help="go on fuzzing for so long in all, shared by the tests of tests/fuzz (default: a fixed number of cases)",
    )
    parser.addoption("--fuzz-seed", type=int, default=0, help="another seed has other cases (default 0)")
    parser.addoption("--fuzz-case", type=int, help="run this one case, as a failure names it")
    parser.addoption(
        "--client-events",
        type=int,
        default=5_000,
        help="events that each consumer of a client library sends while the service restarts (default 5,000)",
    )
    parser.addoption("--client-cycles", type=int, default=10, help="kill -9 of clients in a test (default 10)")
