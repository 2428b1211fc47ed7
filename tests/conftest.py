"""What holds for all tests: generated cases are the same in every run and have no deadline.

So a change is judged by what it changes. ``pytest --hypothesis-profile=default`` looks for new cases, and so does
``pytest tests/fuzz --fuzz-seconds 3600``.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

settings.load_profile("ci")

WITH_SERVICES = ("tests/clients/", "tests/fuzz/", "tests/service/", "tests/ui/")
"""Folders whose tests start services, browsers and SDKs: one at a time, or they take the machine from each other. Those
with brokers mostly wait for them, so they are done beside."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of the two processes of ``make test``, one gets the tests with services, the other the files with none."""
    from xdist.scheduler import LoadScopeScheduling

    class OneForServices(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "services" if path.startswith(WITH_SERVICES) else path

    return OneForServices(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the fuzz tests go on, and with which cases they begin; how much the clients send."""
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
