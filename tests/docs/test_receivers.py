"""docs/reference/receivers.md says what the code does: its bounds are the code's, its request is one that is made."""

from __future__ import annotations

import pytest

from hookline.deliver.lanes import breaker
from hookline.deliver.send import answers, connection, connector, pool
from hookline.limits import LIMITS
from hookline.outcomes.outcome import FINAL, Outcome, of_status
from hookline.settings import Deliver
from tests.docs.pages import DOCS, rows

BOUNDS = {row[0]: row[1] for row in rows("reference/receivers.md") if len(row) == 3}
DELIVER = Deliver()


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("Time for one exchange", f"{DELIVER.timeout:g} s"),
        ("First retry", f"within {DELIVER.retry_first:g} s"),
        ("Longest pause", f"{DELIVER.retry_max / 60:g} min"),
        ("Retries last", f"{DELIVER.retry_window / 3600:g} h"),
        ("Concurrent requests, new receiver", f"{LIMITS.first_allowance}"),
        ("Concurrent requests, healthy receiver", f"{LIMITS.full_allowance}"),
        ("Breaker opens", f"{LIMITS.open_failures} failures in a row, over {LIMITS.open_seconds:g} s"),
        (
            "Probes while it is open",
            f"after {breaker.PROBE_FIRST_SECONDS:g} s, doubling up to {breaker.PROBE_SECONDS_MAX:g} s",
        ),
        ("Your answer's head", f"{answers.HEAD_BYTES_MAX // 1024} KB"),
        ("Your answer's body", f"{answers.BODY_BYTES_MAX // 1024} KB"),
        ("Interim answers (1xx)", f"{connection.INTERIM_ANSWERS_MAX}"),
        ("DNS look-up", f"{LIMITS.lookup_seconds_max:g} s"),
        ("An idle connection", f"{connection.REST_SECONDS_MAX:g} s"),
        ("Further idle connections", f"{connection.SPARE_REST_SECONDS:g} s"),
        ("Age of a connection", f"{pool.CONNECTION_AGE_SECONDS:g} s"),
        ("Delay between the addresses of a name", f"{connector.STAGGER_SECONDS * 1000:g} ms"),
    ],
)
def test_each_bound_is_the_codes(what: str, value: str) -> None:
    """A number that changes in the code changes on the page."""
    assert BOUNDS[what] == value


def test_answers_mean_what_the_page_says() -> None:
    """Statuses that are tried again are those it names, and every other that is no 2xx is final."""
    again = {status for status in range(100, 600) if of_status(status) not in (*FINAL, Outcome.SUCCESS)}
    assert again == {408, 429, *range(500, 600)}
    assert "| 408, 429, 5xx, " in (DOCS / "reference/receivers.md").read_text()
