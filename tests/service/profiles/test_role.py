"""The profiles role beside a running service: started where it is used, killed in the middle of everything."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.sqlite import OperationalError, connect
from hookline.people.definitions.feature import Feature
from hookline.people.store.people import People
from tests.service.cli.test_roles import start
from tests.service.crash.begun import Begun
from tests.service.harness import Hookline, wait_until

ORDERS = Feature("track", "Order", "properties.total >= 10", "properties.total")
SPEND = {
    "id": "spend",
    "name": "Spend",
    "event": "Order",
    "where": "properties.total >= 10",
    "aggregate": "sum",
    "property": "properties.total",
}
DEFINITIONS = {"computedTraits": [SPEND]}
BATCH = 100
SENT = "m-{:05}"


def send(hookline: Hookline, first: int, batches: int = 1) -> int:
    """Send orders of seven people, anonymous at first; return the next number."""
    for begin in range(first, first + batches * BATCH, BATCH):
        events = [_event(number) for number in range(begin, begin + BATCH)]
        assert hookline.post("/v1/batch", {"batch": events}).status == 200
    return first + batches * BATCH


def _event(number: int) -> dict[str, object]:
    person = number % 7
    known = {"userId": f"u{person}"} if number >= 3 * BATCH else {}
    ids = {"anonymousId": f"a{person}", "messageId": SENT.format(number), **known}
    if number % 10 == 9:
        return {"type": "identify", "traits": {"number": number}, **ids}
    return {"type": "track", "event": "Order", "properties": {"total": number}, **ids}


def orders(data: Path, person: int) -> list[float]:
    """The totals that are known of a person, each order once."""
    if not (data / "profiles.db").exists():
        return []
    with closing(connect(data / "profiles.db", read_only=True)) as connection:
        found = People(connection).by_anonymous_id(f"a{person}")
        return [] if found is None else sorted(float(entry.value or 0) for entry in found.entries(ORDERS))


def expected(person: int, sent: int) -> list[float]:
    """The totals of a person's orders among the first so many events."""
    return [float(n) for n in range(10, sent) if n % 7 == person and n % 10 != 9]


def wait_applied(hookline: Hookline, sent: int) -> None:
    """Wait until everything that was sent is known of everybody, no more and no less."""
    wait_until(lambda: all(orders(hookline.data, p) == expected(p, sent) for p in range(7)), what="orders applied")


def test_it_runs_once_there_is_something_to_keep(new_hookline: Callable[..., Hookline]) -> None:
    """Without a definition nobody pays for it; with the first it starts by itself and reads what came before."""
    with new_hookline() as hookline:
        sent = send(hookline, 0)
        assert not hookline.role("profiles", required=False)
        assert hookline.api("POST", "computed-traits", SPEND).status == 201
        sent = send(hookline, sent)
        wait_applied(hookline, sent)
        wait_until(lambda: hookline.metric("hookline_profiles_applied_total") == sent, what="the role's report")
        assert hookline.metric("hookline_profiles_persons") == 7
        assert hookline.metric("hookline_profiles_lag_events") == 0
        assert os.getpriority(os.PRIO_PROCESS, hookline.role("profiles")) == 19


def test_killed_again_and_again_it_loses_nothing_and_counts_nothing_twice(
    new_hookline: Callable[..., Hookline],
) -> None:
    """Events go on coming while the role dies; at the end everybody has exactly their orders."""
    with new_hookline(definitions=DEFINITIONS) as hookline:
        sent = 0
        for _ in range(8):
            known, before = len(expected(3, sent)), sent
            sent = send(hookline, sent, batches=5)
            wait_until(lambda: hookline.role("profiles", required=False), what="the role")
            wait_until(lambda known=known: len(orders(hookline.data, 3)) > known, what="some of it applied")
            send(hookline, before)  # a client that was not answered sends again
            os.kill(hookline.role("profiles"), signal.SIGKILL)
        wait_applied(hookline, sent)
        hookline.restart()
        sent = send(hookline, sent)
        wait_applied(hookline, sent)
        with closing(connect(hookline.data / "profiles.db", read_only=True)) as connection:
            person = People(connection).by_user_id("u3")
            assert person is not None
            assert [tuple(each) for each in person.identities()] == [("user", "u3"), ("anonymous", "a3")]
            newest = max(n for n in range(sent) if n % 7 == 3 and n % 10 == 9)
            assert person.traits()["number"].value == newest


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A service whose first batch is applied."""
    hookline = Hookline(tmp_path_factory.mktemp("applied"), definitions=DEFINITIONS)
    with hookline:
        wait_applied(hookline, send(hookline, 0))
    return Begun(hookline)


@pytest.mark.parametrize("point", ["profiles.before_commit", "profiles.after_commit"])
def test_a_crash_around_the_commit(new_hookline: Callable[..., Hookline], applied: Begun, point: str) -> None:
    """A batch is applied as a whole or not at all, and its place with it."""
    hookline = applied.copied(new_hookline)
    hookline.environment["HOOKLINE_CRASH_POINT"] = f"{point}:2"
    with hookline:
        sent = send(hookline, BATCH, batches=2)
        wait_applied(hookline, sent)
        sent = send(hookline, sent)
        wait_applied(hookline, sent)
        wait_until(lambda: "profiles ended by SIGKILL" in hookline.log, what="the armed point")
        sent = send(hookline, sent)
        wait_applied(hookline, sent)


def test_alone_it_needs_nobody(new_hookline: Callable[..., Hookline]) -> None:
    """Started by itself it makes its file, follows what is there, and ends on SIGTERM; a second one is refused."""
    with new_hookline() as hookline:
        sent = send(hookline, 0)
    role = start(hookline, "profiles")
    try:
        wait_until(lambda: _persons(hookline.data) == 7, what="seven persons")
        assert start(hookline, "profiles").wait() == 1
    finally:
        role.send_signal(signal.SIGTERM)
    assert role.wait() == 0
    assert sent == BATCH


def _persons(data: Path) -> int:
    try:
        with closing(connect(data / "profiles.db", read_only=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM persons").fetchone()[0])
    except OperationalError:  # there is no file yet
        return 0
