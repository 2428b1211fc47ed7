"""Put together the parts that tell who calls, and bound how often a wrong password may be tried.

What cannot be guessed, the admin token and the one-time link, is looked at before this is asked; here only its wrong
tries are counted. Addresses are networks: of IPv6 a /64.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import NamedTuple

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
KEYS_MAX = 60_000
"""Of each kind; all of them take 40 MB. One password is checked at a time, for 20 ms at the very least, so that at most
45,000 keys fail within a window. Beyond the bound the key that failed longest ago is forgotten. To refuse new keys
instead would lock everybody out, while whoever has one forgotten pays for its five tries with 60,000 others."""
SECRET_KEYS_MAX = SIGNED_IN_MAX = 10_000
"""Networks that tried an admin token or a link, and places that accounts signed in from."""
_DIGEST_BYTES = 16


class LoginThrottle:
    """Remembers tries of the last quarter of an hour.

    A try counts as failed from its beginning, so that many at once are no way around. Only what is looked at is
    counted: a try that costs nothing must push nothing out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pairs = _Failures(FAILURES_MAX, KEYS_MAX)
        self._accounts = _Failures(FAILURES_PER_ACCOUNT_MAX, KEYS_MAX)
        self._networks = _Failures(FAILURES_PER_ADDRESS_MAX, KEYS_MAX)
        # Apart from passwords: a wrong token costs no check, and whoever has many networks has many of these.
        self._secrets = _Failures(FAILURES_MAX, SECRET_KEYS_MAX)
        self._signed_in_from: OrderedDict[_Pair, None] = OrderedDict()

    def begin(self, address: str, account: str = "") -> int | None:
        """Return None when this may be tried now (and count it), else how many seconds to wait.

        Without an account it is a try of a token or a link.
        """
        wait_seconds = self.wait(address, account)
        if wait_seconds is None:
            self.count(address, account)
        return wait_seconds

    def wait(self, address: str, account: str = "") -> int | None:
        """Return None when this may be tried now, else how many seconds to wait; count nothing."""
        now, pair = self._clock(), _pair(address, account)
        if not pair.account:
            wait = self._secrets.wait(pair.network, now, FAILURES_MAX)
        else:
            is_guessed = self._accounts.wait(pair.account, now, FAILURES_PER_ACCOUNT_MAX) > 0
            most = 1 if is_guessed and pair not in self._signed_in_from else FAILURES_MAX
            wait = self._pairs.wait(pair, now, most)
        return math.ceil(wait) if wait > 0 else None

    def count(self, address: str, account: str = "") -> None:
        """Count a try as failed: call it right before the password is looked at, when there is room for that."""
        now = self._clock()
        for failures, key in self._of(_pair(address, account)):
            failures.add(key, now)

    def fails_often(self, address: str) -> bool:
        """Return whether so many tries from there failed that others go first."""
        return self._networks.wait(network_of(address), self._clock(), FAILURES_PER_ADDRESS_MAX) > 0

    def not_tried(self, address: str, account: str = "") -> None:
        """Take back what was counted: nobody learned whether the password is right."""
        for failures, key in self._of(_pair(address, account)):
            failures.take_back(key)

    def succeeded(self, address: str, account: str = "") -> None:
        """Take the try back, and those before it from this address for this account."""
        pair = _pair(address, account)
        self.not_tried(address, account)
        self._pairs.forget(pair)
        self._signed_in_from[pair] = None
        self._signed_in_from.move_to_end(pair)
        if len(self._signed_in_from) > SIGNED_IN_MAX:
            self._signed_in_from.popitem(last=False)

    def _of(self, pair: _Pair) -> tuple[tuple[_Failures, Hashable], ...]:
        if not pair.account:
            return ((self._secrets, pair.network),)
        return (self._pairs, pair), (self._accounts, pair.account), (self._networks, pair.network)


class _Failures:
    """When each key failed, as many times as matter; the key that failed longest ago comes first."""

    def __init__(self, most: int, keys_max: int) -> None:
        self._most = most
        self._keys_max = keys_max
        self._times: OrderedDict[Hashable, tuple[float, ...]] = OrderedDict()

    def wait(self, key: Hashable, now: float, most: int) -> float:
        """Return the seconds until fewer than ``most`` are within the window, 0.0 or less when that is so now."""
        times = self._times.get(key, ())
        return times[-most] + WINDOW_SECONDS - now if len(times) >= most else 0.0

    def add(self, key: Hashable, now: float) -> None:
        self._times[key] = (*self._times.get(key, ()), now)[-self._most :]
        self._times.move_to_end(key)
        while len(self._times) > self._keys_max or self._has_old(now):
            self._times.popitem(last=False)

    def _has_old(self, now: float) -> bool:
        first = next(iter(self._times.values()))
        return first[-1] + WINDOW_SECONDS <= now

    def take_back(self, key: Hashable) -> None:
        times = self._times.get(key, ())[:-1]
        if times:
            self._times[key] = times
        else:
            self.forget(key)

    def forget(self, key: Hashable) -> None:
        self._times.pop(key, None)


class _Pair(NamedTuple):
    network: str
    account: bytes
    """The digest of a name that somebody typed, which takes no memory for its length; empty for none."""


def _pair(address: str, account: str) -> _Pair:
    name = name_key(account.strip()[:NAME_CHARACTERS_MAX])  # longer is nobody's name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest() if name else b""
    return _Pair(network_of(address), digest)


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
