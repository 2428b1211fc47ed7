"""Sessions and the login throttle on a clock of the test's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.api.auth import sessions as module
from hookline.api.auth.accounts import Accounts
from hookline.api.auth.service import (
    FAILURES_MAX,
    FAILURES_PER_ACCOUNT_MAX,
    FAILURES_PER_ADDRESS_MAX,
    KEYS_MAX,
    WINDOW_SECONDS,
    LoginThrottle,
)
from hookline.api.auth.sessions import IDLE_MS, LIFETIME_MS, Sessions
from hookline.database.connect import Shared
from hookline.database.open import ensure
from tests.unit.conftest import LocationOf


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
def database(location_of: LocationOf) -> Iterator[Shared]:
    """An empty control database."""
    ensure(location_of("control"), "control")
    shared = Shared(location_of("control"))
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


def test_sessions_are_bounded(
    sessions: Sessions, database: Shared, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of an account the one unused for longest makes room; those of others stay."""
    monkeypatch.setattr(module, "SESSIONS_PER_ACCOUNT_MAX", 3)
    monkeypatch.setattr(module, "NOTED_EVERY_MS", 0)
    other = sessions.open(Accounts(database).create_first("olga", "hash").id)
    keys = []
    for _ in range(3):
        clock.now += 1
        keys.append(sessions.open())
    clock.now += 1
    assert sessions.is_open(keys[0])
    keys.append(sessions.open())
    assert [sessions.is_open(key) for key in [other, *keys]] == [True, True, False, True, True]


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
    assert sessions.end_all(owner.id) == 0


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


def test_strangers_lock_nobody_out(throttle: LoginThrottle) -> None:
    """Hundreds of addresses that fail for an account, as often as they may, keep no other address from trying it."""
    for number in range(200):
        for _ in range(FAILURES_MAX + 1):
            throttle.begin(f"10.0.0.{number}", "olga")
    assert throttle.begin("10.0.1.1", "olga") is None
    assert throttle.begin("10.0.0.1", "vera") is None


def test_an_account_is_guessed_slowly_from_many_addresses(throttle: LoginThrottle) -> None:
    """After twenty failures each address has one try, however the name is written; where it signed in from has five."""
    throttle.succeeded("10.0.2.2", "olga")
    assert all(throttle.begin(f"10.0.0.{number}", "Olga") is None for number in range(FAILURES_PER_ACCOUNT_MAX))
    assert [throttle.begin("10.0.1.1", " olga ") is None for _ in range(2)] == [True, False]
    assert [throttle.begin("10.0.2.2", "olga") is None for _ in range(6)] == [True] * FAILURES_MAX + [False]


def test_an_address_of_ipv6_is_its_network(throttle: LoginThrottle) -> None:
    """Whoever has a /64 has five tries, not as many as addresses."""
    assert all(throttle.begin(f"2001:db8::{number}", "olga") is None for number in range(FAILURES_MAX))
    assert throttle.begin("2001:db8::ffff", "olga") is not None
    assert throttle.begin("2001:db8:0:1::1", "olga") is None


def test_who_fails_for_many_accounts_lets_others_go_first(throttle: LoginThrottle) -> None:
    """An address that tries one name after the other may go on, behind everybody else."""
    assert all(throttle.begin("a", f"name {number}") is None for number in range(FAILURES_PER_ADDRESS_MAX))
    assert throttle.fails_often("a")
    assert throttle.begin("a", "olga") is None
    assert not throttle.fails_often("b")


def test_a_password_nobody_looked_at_is_no_failure(throttle: LoginThrottle) -> None:
    """Being sent away because many sign in counts for nothing."""
    for _ in range(FAILURES_MAX * 2):
        assert throttle.begin("a", "olga") is None
        throttle.not_tried("a", "olga")


def test_a_try_that_nobody_looks_at_leaves_nothing_behind(throttle: LoginThrottle) -> None:
    """Neither asking nor what is taken back keeps a key, so that neither pushes another one out."""
    assert throttle.wait("a", "olga") is None
    throttle.begin("a", "olga")
    throttle.not_tried("a", "olga")
    throttle.begin("b")
    throttle.not_tried("b")
    assert remembered(throttle) == [0, 0, 0, 0]


def test_tries_of_tokens_push_out_no_failures_of_passwords(
    throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost no check of a password, and one machine may have 65,536 networks of IPv6."""
    monkeypatch.setattr(throttle._secrets, "_keys_max", 10)
    for _ in range(FAILURES_MAX):
        throttle.begin("a", "olga")
    for number in range(100):
        throttle.begin(f"2001:db8:0:{number}::1")
    assert throttle.wait("a", "olga") is not None
    assert remembered(throttle) == [1, 1, 1, 10]


def test_what_the_throttle_remembers_is_bounded(throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who failed longest ago is forgotten first, whatever else began before; nobody new is refused."""
    for failures in (throttle._pairs, throttle._accounts, throttle._networks):
        monkeypatch.setattr(failures, "_keys_max", 100)
    for number in range(150):
        assert throttle.begin(f"address {number}", f"name {number}") is None
        for _ in range(FAILURES_MAX - 1):
            throttle.begin("a", "olga")
    assert remembered(throttle) == [100, 100, 100, 0]
    assert throttle.wait("a", "olga") is not None


def test_the_bound_is_more_than_are_checked_within_a_window() -> None:
    """Where a check takes 20 ms, less than it does on any core of today, no failure within the window is forgotten."""
    assert KEYS_MAX > WINDOW_SECONDS / 0.02


def test_failures_before_the_window_are_forgotten_first() -> None:
    """Keys go when their last failure is a quarter of an hour old; those that failed since stay."""
    now = 1_000.0
    throttle = LoginThrottle(lambda: now)
    for number in range(50):
        throttle.begin(f"address {number}", f"name {number}")
    now += WINDOW_SECONDS / 2
    throttle.begin("address 7", "name 7")
    now += WINDOW_SECONDS / 2
    throttle.begin("a", "olga")
    assert remembered(throttle) == [2, 2, 2, 0]


def test_a_long_name_takes_no_more_memory_than_a_short_one(throttle: LoginThrottle) -> None:
    """Names are anybody's to make up, so only digests of them are kept."""
    throttle.begin("a", "ΐ" * 200)
    ((network, account),) = throttle._pairs._times
    assert (network, len(account)) == ("a", 16)


def remembered(throttle: LoginThrottle) -> list[int]:
    """How many keys are kept of each kind: pairs, accounts, networks, and networks that tried tokens."""
    kept = (throttle._pairs, throttle._accounts, throttle._networks, throttle._secrets)
    return [len(failures._times) for failures in kept]


def test_who_gets_in_starts_anew(throttle: LoginThrottle) -> None:
    """After the right password the wrong ones before it count no more; those for another account still do."""
    for account in ("olga", "vera"):
        for _ in range(FAILURES_MAX - 1):
            throttle.begin("a", account)
    assert throttle.begin("a", "olga") is None
    throttle.succeeded("a", "olga")
    assert [throttle.begin("a", "olga") is None for _ in range(6)] == [True] * FAILURES_MAX + [False]
    assert [throttle.begin("a", "vera") is None for _ in range(2)] == [True, False]
