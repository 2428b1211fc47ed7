"""Put together the parts that tell who calls, and bound how often a wrong password may be tried.

What cannot be guessed, the admin token and the one-time link, is looked at before this is asked; here only its wrong
tries are counted. Addresses are networks: of IPv6 a /64.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

from hookline.api.auth import admin_token as stored_token
from hookline.api.auth.accounts import NAME_CHARACTERS_MAX, Accounts, Passwords, name_key
from hookline.api.auth.admin_token import AdminToken, OneTimeLink
from hookline.api.auth.sessions import Sessions
from hookline.api.auth.tokens import Tokens
from hookline.api.services import Services, control_database, part
from hookline.client_address import network_of

WINDOW_SECONDS = 15 * 60.0
FAILURES_MAX = 5
"""From one address for one account."""
FAILURES_PER_ACCOUNT_MAX = 20
"""From all addresses together. Beyond them each address has one try instead of five, save those the account signed in
from: guessing gets slower, and whoever knows the password gets in from any address that did not fail."""
FAILURES_PER_ADDRESS_MAX = 20
"""For all accounts together; beyond them passwords from there are looked at only while nobody else waits."""
KEYS_MAX = 10_000
"""Of each kind that is remembered; the one that was heard of longest ago is forgotten."""


class LoginThrottle:
    """Remembers tries of the last quarter of an hour.

    A try counts as failed from its beginning, so that many at once are no way around.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pairs = _Failures(FAILURES_MAX)
        self._accounts = _Failures(FAILURES_PER_ACCOUNT_MAX)
        self._networks = _Failures(FAILURES_PER_ADDRESS_MAX)
        self._signed_in_from: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, address: str, account: str = "") -> int | None:
        """Return None when this may be tried now (and count it), else how many seconds to wait."""
        now, pair = self._clock(), _pair(address, account)
        is_guessed = self._accounts.wait(pair[1], now, FAILURES_PER_ACCOUNT_MAX) > 0 and pair[1] != ""
        most = 1 if is_guessed and pair not in self._signed_in_from else FAILURES_MAX
        wait = self._pairs.wait(pair, now, most)
        if wait > 0:
            return math.ceil(wait)
        for failures, key in self._of(pair):
            failures.add(key, now)
        return None

    def fails_often(self, address: str) -> bool:
        """Return whether so many tries from there failed that others go first."""
        return self._networks.wait(network_of(address), self._clock(), FAILURES_PER_ADDRESS_MAX) > 0

    def not_tried(self, address: str, account: str = "") -> None:
        """Take back what ``begin`` counted: nobody looked at the password."""
        for failures, key in self._of(_pair(address, account)):
            failures.take_back(key)

    def succeeded(self, address: str, account: str = "") -> None:
        """Take the try back, and those before it from this address for this account."""
        pair = _pair(address, account)
        self.not_tried(address, account)
        self._pairs.forget(pair)
        self._signed_in_from[pair] = None
        self._signed_in_from.move_to_end(pair)
        if len(self._signed_in_from) > KEYS_MAX:
            self._signed_in_from.popitem(last=False)

    def _of(self, pair: tuple[str, str]) -> tuple[tuple[_Failures, Hashable], ...]:
        return (self._pairs, pair), (self._accounts, pair[1]), (self._networks, pair[0])


class _Failures:
    """When each key failed, as many times as matter."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def wait(self, key: Hashable, now: float, most: int) -> float:
        """Return the seconds until fewer than ``most`` are within the window, 0.0 or less when that is so now."""
        times = self._times.get(key, ())
        return times[-most] + WINDOW_SECONDS - now if len(times) >= most else 0.0

    def add(self, key: Hashable, now: float) -> None:
        times = self._times.setdefault(key, deque(maxlen=self._most))
        times.append(now)
        self._times.move_to_end(key)
        if len(self._times) > KEYS_MAX:
            self._times.popitem(last=False)

    def take_back(self, key: Hashable) -> None:
        times = self._times.get(key)
        if times:
            times.pop()

    def forget(self, key: Hashable) -> None:
        self._times.pop(key, None)


def _pair(address: str, account: str) -> tuple[str, str]:
    return network_of(address), name_key(account.strip()[:NAME_CHARACTERS_MAX])  # longer is nobody's name, only memory


@part
def admin_token(services: Services) -> AdminToken:
    """Raise AdminTokenError when it cannot be used."""
    return stored_token.load(services.settings)


@part
def account_store(services: Services) -> Accounts:
    """Return the accounts of people."""
    return Accounts(control_database(services))


@part
def password_hasher(services: Services) -> Passwords:
    """Return what hashes and checks passwords."""
    return Passwords()


@part
def session_store(services: Services) -> Sessions:
    """Return the open sessions; their cookies are for TLS alone where the service is reached by it."""
    secure = (services.settings.control.public_url or "").startswith("https://")
    return Sessions(control_database(services), admin_token(services).mark, secure)


@part
def token_store(services: Services) -> Tokens:
    """Return the tokens of programs."""
    return Tokens(control_database(services))


@part
def login_throttle(services: Services) -> LoginThrottle:
    """Return what slows down guessing."""
    return LoginThrottle()


@part
def login_link(services: Services) -> OneTimeLink:
    """Return the link that opens a first session."""
    return OneTimeLink(services.settings.data_path)
