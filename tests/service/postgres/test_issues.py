"""Issues with the databases in PostgreSQL: as on one machine without it."""

from __future__ import annotations

from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.cli.conftest import run as run
from tests.service.control.test_issues import story
from tests.service.harness import Hookline, Receiver, webhook


def test_one_cause_over_kill_9_until_all_has_arrived(
    on_postgres: Callable[..., Hookline], receiver: Receiver, run: Run
) -> None:
    """Three hundred events are one issue, none counts twice, and a retry brings all of them."""
    with on_postgres(webhook("refusing", receiver.url())) as hookline:
        story(hookline, receiver, run)
