"""What holds for all tests: generated cases are the same in every run and have no deadline.

So a change is judged by what it changes. ``pytest --hypothesis-profile=default`` looks for new cases, and so does
``pytest tests/fuzz --fuzz-seconds 3600``.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the fuzz tests go on, and with which cases they begin."""
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        help="go on fuzzing for so long in all, shared by the tests of tests/fuzz (default: a fixed number of cases)",
    )
    parser.addoption("--fuzz-seed", type=int, default=0, help="another seed has other cases (default 0)")
    parser.addoption("--fuzz-case", type=int, help="run this one case, as a failure names it")
