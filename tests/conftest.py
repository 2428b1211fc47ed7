"""What holds for all tests: generated cases are the same in every run and have no deadline.

So a change is judged by what it changes. ``pytest --hypothesis-profile=default`` looks for new cases, and so does
``pytest tests/fuzz --fuzz-seconds 3600``.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import settings

settings.load_profile("ci")

WITH_SERVICES = ("tests/clients/", "tests/fuzz/", "tests/service/", "tests/ui/")
"""Folders whose tests start services, browsers and SDKs: one at a time, or they take the machine from each other. Those
with brokers mostly wait for them, so they are done beside."""
WITH_BROKERS = "tests/kafka/"
"""One piece, for it shares a cluster; the longest, so it must not come last."""
LONGEST = (
    "tests/service/crash/test_set_clock.py",
    "tests/service/crash/test_kills.py",
    "tests/service/postgres/test_trouble.py",
    "tests/ui/test_screens.py",
    "tests/service/crash/test_power_cut.py",
    "tests/service/control/test_hostile_clients.py",
    "tests/service/postgres/test_restarts.py",
    "tests/service/upgrade/test_connections_unread.py",
    "tests/service/cli/test_bench.py",
    "tests/service/collect/test_budget.py",
)
"""Files that take most of a minute and more: they come first, for both processes are to end together, and who takes one
of them as the last file of all works on alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with services at one end, the longest files first, and those with brokers at the other."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool, bool]:
    name = item.nodeid
    return not name.startswith(WITH_SERVICES), name.startswith(WITH_BROKERS), not name.startswith(LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of the two processes of ``make test``, one takes file after file from the beginning, where the services are, the
    other from the end, until they meet."""
    from xdist.scheduler import LoadScopeScheduling

    class FromBothEnds(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return WITH_BROKERS if nodeid.startswith(WITH_BROKERS) else nodeid.partition("::")[0]

        def _assign_work_unit(self, node: Any) -> None:
            if node is not self.nodes[0]:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return FromBothEnds(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Have ``make check`` end in time, however much has changed."""
    if (seconds := config.getoption("--within")) is not None:
        config.pluginmanager.register(Within(seconds))


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
        help="events that each consumer of the client library sends while the service restarts (default 5,000)",
    )
