"""Sessions and the login throttle on a clock of the test's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.control.login_throttle import (
    FAILURES_OVERALL_MAX,
    FAILURES_PER_ACCOUNT_MAX,
    WINDOW_SECONDS,
    LoginThrottle,
)
from hookline.control.people import sessions as module
from hookline.control.people.accounts import Accounts
from hookline.control.people.sessions import IDLE_MS, LIFETIME_MS, Sessions
from hookline.database.open import ensure
from hookline.database.shared import Shared
from tests.unit.conftest import PlaceOf


class Clock:
    """Time that passes when told to."""

    now = 1_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at rest."""
    return Clock()


@pytest.fixture
def database(place_of: PlaceOf) -> Iterator[Shared]:
    """An empty control database."""
    ensure(place_of("control"), "control")
    shared = Shared(place_of("control"))
    yield shared
    shared.close()


@pytest.fixture
def sessions(database: Shared, clock: Clock) -> Sessions:
    """No session yet."""
    return Sessions(database, b"admin", secure=False, now_ms=clock)


def test_an_unused_session_ends(sessions: Sessions, clock: Clock) -> None:
    """Idle for longer than allowed, it is over, and stays over."""
    key = sessions.open()
    clock.now += IDLE_MS + 1
    assert not sessions.is_open(key)
    clock.now -= IDLE_MS
    assert not sessions.is_open(key)


def test_a_used_session_ends_too(sessions: Sessions, clock: Clock) -> None:
    """However often it is used, it ends after its lifetime."""
    key = sessions.open()
    ends = clock.now + LIFETIME_MS
    while clock.now + IDLE_MS // 2 < ends:
        clock.now += IDLE_MS // 2
        assert sessions.is_open(key)
    clock.now = ends + 1
    assert not sessions.is_open(key)


def test_sessions_are_bounded(sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the one unused for longest makes room."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 3)
    monkeypatch.setattr(module, "NOTED_EVERY_MS", 0)
    keys = []
    for _ in range(3):
        clock.now += 1
        keys.append(sessions.open())
    clock.now += 1
    assert sessions.is_open(keys[0])
    keys.append(sessions.open())
    assert [sessions.is_open(key) for key in keys] == [True, False, True, True]


@pytest.mark.parametrize("key", [None, "", "nope", "\ud800"])
def test_no_key_opens_nothing(sessions: Sessions, key: str | None) -> None:
    """What is no session's key is refused, whatever it is."""
    assert not sessions.is_open(key)


def test_a_session_outlives_a_restart_but_not_its_admin_token(sessions: Sessions, database: Shared) -> None:
    """Sessions are in the database; those that the admin token opened end when there is another one."""
    key = sessions.open()
    assert Sessions(database, b"admin", secure=False, now_ms=sessions._now_ms).is_open(key)
    assert not Sessions(database, b"other", secure=False, now_ms=sessions._now_ms).is_open(key)


def test_a_session_has_the_role_of_its_account_at_once(sessions: Sessions, database: Shared) -> None:
    """What an account may do is asked at every request; a disabled account has no session any more."""
    accounts = Accounts(database)
    owner = accounts.create_first("olga", "hash")
    viewer, _ = accounts.invite("vera", "viewer")
    key = sessions.open(viewer.id)
    accounts.change(viewer.id, "editor", disabled=False)
    found = sessions.find(key)
    assert found is not None
    assert (found.name, found.role) == ("vera", "editor")
    accounts.change(viewer.id, "editor", disabled=True)
    assert sessions.find(key) is None
    accounts.change(viewer.id, "editor", disabled=False)
    assert sessions.find(key) is None
    assert sessions.close_all(owner.id) == 0


def test_the_key_itself_is_not_stored(sessions: Sessions, database: Shared) -> None:
    """Who reads the database can sign in as nobody."""
    key = sessions.open()
    ((digest,),) = database.rows("SELECT digest FROM sessions")
    assert key.encode() not in digest


@pytest.fixture
def throttle() -> LoginThrottle:
    """No try yet, time at rest."""
    return LoginThrottle(lambda: 1_000.0)


def test_the_throttle_lets_go_after_its_window() -> None:
    """Five tries close the form for the address and no other one; a quarter of an hour later it is open."""
    now = 1_000.0
    throttle = LoginThrottle(lambda: now)
    assert [throttle.begin("a") for _ in range(5)] == [None] * 5
    wait = throttle.begin("a")
    assert wait is not None
    assert throttle.begin("b") is None
    now += wait
    assert throttle.begin("a") is None


def test_many_addresses_do_not_get_around_it() -> None:
    """Failures of all addresses together are limited as well."""
    now = 1_000.0
    throttle = LoginThrottle(lambda: now)
    assert all(throttle.begin(f"10.0.0.{number}") is None for number in range(FAILURES_OVERALL_MAX))
    assert throttle.begin("10.0.1.1") is not None
    now += WINDOW_SECONDS + 1
    assert throttle.begin("10.0.1.1") is None


def test_an_account_is_guarded_from_all_addresses(throttle: LoginThrottle) -> None:
    """One account's password is not guessed from many addresses, however its name is written; others sign in."""
    assert all(throttle.begin(f"10.0.0.{number}", "Olga") is None for number in range(FAILURES_PER_ACCOUNT_MAX))
    assert throttle.begin("10.0.1.1", " olga ") is not None
    assert throttle.begin("10.0.1.1", "vera") is None


def test_who_gets_in_starts_anew(throttle: LoginThrottle) -> None:
    """After the right password the wrong ones before it count no more; those of others still do."""
    for _ in range(4):
        throttle.begin("a", "olga")
    throttle.begin("a", "vera")
    assert throttle.begin("a", "olga") is not None
    throttle.succeeded("a", "olga")
    assert throttle.begin("a", "olga") is None
