"""Sessions and the login throttle on a clock of the test's."""

from __future__ import annotations

import pytest

from hookline.control import sessions as module
from hookline.control.login_throttle import FAILURES_OVERALL_MAX, WINDOW_SECONDS, LoginThrottle
from hookline.control.sessions import IDLE_SECONDS, LIFETIME_SECONDS, Sessions


class Clock:
    """Time that passes when told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at rest."""
    return Clock()


def test_an_unused_session_ends(clock: Clock) -> None:
    """Idle for longer than allowed, it is over, and stays over."""
    sessions = Sessions(secure=False, clock=clock)
    key = sessions.open()
    clock.now += IDLE_SECONDS + 1
    assert not sessions.is_open(key)
    clock.now -= IDLE_SECONDS
    assert not sessions.is_open(key)


def test_a_used_session_ends_too(clock: Clock) -> None:
    """However often it is used, it ends after its lifetime."""
    sessions = Sessions(secure=False, clock=clock)
    key = sessions.open()
    ends = clock.now + LIFETIME_SECONDS
    while clock.now + IDLE_SECONDS / 2 < ends:
        clock.now += IDLE_SECONDS / 2
        assert sessions.is_open(key)
    clock.now = ends + 1
    assert not sessions.is_open(key)


def test_sessions_are_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the one unused for longest makes room."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 3)
    sessions = Sessions(secure=False, clock=clock)
    keys = []
    for _ in range(3):
        clock.now += 1
        keys.append(sessions.open())
    clock.now += 1
    assert sessions.is_open(keys[0])
    keys.append(sessions.open())
    assert [sessions.is_open(key) for key in keys] == [True, False, True, True]


@pytest.mark.parametrize("key", [None, "", "nope", "\ud800"])
def test_no_key_opens_nothing(clock: Clock, key: str | None) -> None:
    """What is no session's key is refused, whatever it is."""
    assert not Sessions(secure=False, clock=clock).is_open(key)


def test_the_throttle_lets_go_after_its_window(clock: Clock) -> None:
    """Five failures close the form for the address and no other one; a quarter of an hour later it is open."""
    throttle = LoginThrottle(clock)
    for _ in range(5):
        assert throttle.retry_after_seconds("a") is None
        throttle.failed("a")
    wait = throttle.retry_after_seconds("a")
    assert wait is not None
    assert throttle.retry_after_seconds("b") is None
    clock.now += wait
    assert throttle.retry_after_seconds("a") is None


def test_many_addresses_do_not_get_around_it(clock: Clock) -> None:
    """Failures of all addresses together are limited as well."""
    throttle = LoginThrottle(clock)
    for number in range(FAILURES_OVERALL_MAX):
        throttle.failed(f"10.0.0.{number}")
    assert throttle.retry_after_seconds("10.0.1.1") is not None
    clock.now += WINDOW_SECONDS + 1
    assert throttle.retry_after_seconds("10.0.1.1") is None
