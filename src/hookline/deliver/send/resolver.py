"""The look-up of receiver names: resolves without blocking the loop and gives out only addresses the guard lets pass.

A name is resolved here once, every address of it is checked, and the caller connects to exactly one of the addresses
returned, so that no second look-up can answer differently (DNS rebinding).

The guard says which addresses a webhook request may go to. Everything that is not a public address is refused, in
whatever form it is written or carried, and so are this machine's own addresses; ``deliver.allow_networks`` opens
exceptions. The lists are the IANA special-purpose registries and the metadata services of the clouds.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import inf
from typing import NamedTuple

from hookline.limits import LIMITS, Limits

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_BLOCKED_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a provider's customers",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "cloud metadata",
    "169.254.0.0/16": "link-local, cloud metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
# Only 2000::/3 is public at all; these are the parts of it that are not.
_PUBLIC_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = {
    "2001::/23": "protocol assignments, Teredo",
    "2001:db8::/32": "documentation",
    "2620:4f:8000::/48": "AS112",
    "3fff::/20": "documentation",
}
# Networks whose addresses carry an IPv4 address, and how many bits lie to the right of it. What is carried is checked
# like any other; the second field says whether the outer address may be contacted when the inner one may.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0, True),  # mapped: a socket connects to the IPv4 address itself
    (IPv6Network("64:ff9b::/96"), 0, True),  # NAT64: how a host without IPv4 reaches it
    (IPv6Network("2002::/16"), 80, True),  # 6to4
    (IPv6Network("::/96"), 0, False),  # compatible, long abolished
    (IPv6Network("::ffff:0:0:0/96"), 0, False),  # translated (SIIT)
)
# ISATAP (RFC 5214) works under any prefix: these 32 bits, one of which says "unique" and counts for nothing, and then
# the IPv4 address that the packet goes to. NAT64 under a network's own prefix (RFC 6052) cannot be told by the address.
_ISATAP, _ISATAP_MASK = 0x0000_5EFE, 0xFDFF_FFFF
_BLOCKED = tuple((ip_network(text), why) for text, why in (_BLOCKED_V4 | _BLOCKED_V6).items())
# Names that mean this machine's or its cloud's insides wherever they resolve to.
_INSIDE_SUFFIXES = (".internal", ".metadata")


class Guard:
    """Decides whether an address may be contacted.

    ``allow_networks`` are exceptions to everything below; they also hold for IPv4 addresses carried in IPv6 ones.
    ``is_own`` says whether an address is one of this machine's: what listens there is not a receiver, public or not.
    """

    def __init__(self, allow_networks: Sequence[str], is_own: Callable[[str], bool] | None = None) -> None:
        self._allowed = tuple(ip_network(network, strict=False) for network in allow_networks)
        self._is_own = is_own or is_own_address

    def refusal(self, address: str) -> str | None:
        """Return why the numeric address may not be contacted, or None when it may."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return f"{address[:64]!r} is not an IP address"
        if self._is_allowed(parsed):
            return None
        reason = _public_refusal(parsed)
        if reason is None and any(self._is_own(str(form)) for form in (*_forms(parsed), *_tunnelled(parsed))):
            reason = "an address of this machine"
        return f"{address} is not a public address ({reason}); deliver.allow_networks can allow it" if reason else None

    def name_refusal(self, host: str) -> str | None:
        """Return why the name may not even be looked up, or None: inside names need an exception to be of any use."""
        if self._allowed or not is_inside_name(host):
            return None
        return f"{host} is an inside name; deliver.allow_networks can allow its addresses"

    def is_exception(self, address: str) -> bool:
        """Return whether the address is one that ``allow_networks`` opens."""
        return self._is_allowed(ip_address(address))

    def _is_allowed(self, address: Address) -> bool:
        return any(form in network for form in _forms(address) for network in self._allowed)


def same_address(peer: str, checked: str) -> bool:
    """Return whether a socket's peer is the address that was checked."""
    return peer == checked or _plain(peer) == _plain(checked)


def is_inside_name(host: str) -> bool:
    """Return whether the name belongs to the inside of a network or cloud by its spelling alone."""
    return f".{host.lower().removesuffix('.')}".endswith(_INSIDE_SUFFIXES)


def is_own_address(address: str) -> bool:
    """Return whether the address belongs to an interface of this machine.

    The system picks the address itself as the sender's only then. Nothing is sent: a datagram socket's connect just
    looks the route up.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return same_address(probe.getsockname()[0], address)
    except OSError:
        return False


def _public_refusal(address: Address) -> str | None:
    for network, right_bits, passes in _CARRIERS:
        if address in network:
            inner = IPv4Address(int(address) >> right_bits & 0xFFFF_FFFF)
            if not passes:
                return _public_refusal(inner) or f"carries {inner} in an abolished form"
            return _public_refusal(inner) or _tunnel_refusal(address)  # 6to4 has room for an ISATAP address below it
    for blocked, why in _BLOCKED:
        if address in blocked:
            return f"{blocked}: {why}"
    if address.version == 6 and address not in _PUBLIC_V6:
        return f"outside {_PUBLIC_V6}"
    return _tunnel_refusal(address)


def _tunnel_refusal(address: Address) -> str | None:
    return next((_public_refusal(inner) for inner in _tunnelled(address)), None)


def _forms(address: Address) -> Iterator[Address]:
    """Yield the address and, when it carries an IPv4 address, that one."""
    yield address
    for network, right_bits, _ in _CARRIERS:
        if address in network and int(address) > 0xFFFF:  # ::1 and :: are themselves, not 0.0.0.1 and 0.0.0.0
            yield IPv4Address(int(address) >> right_bits & 0xFFFF_FFFF)
            return


def _tunnelled(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 address that an ISATAP one leads to. An exception for that does not open this one, under any
    prefix."""
    if address.version == 6 and int(address) >> 32 & _ISATAP_MASK == _ISATAP:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def _plain(address: str) -> Address:
    parsed = ip_address(address.partition("%")[0])
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed


KNOWN_LOOKUPS_MAX = 512
"""Look-ups under way at once, each in a thread of its own, of names that had an address before: so many may hang before
the next one waits for them. The names of a DNS provider that falls silent do so once, and are doubtful then. A hanging
thread takes 22 KB and a descriptor."""
KNOWN_FILES_SHARE = 8
"""Of the open files that are allowed, the part that these may take at most, where that is less: 128 of 1,024."""
KNOWN_PLACES = 16
"""Of these, those that began within the last ``SOON_SECONDS`` and have no answer yet: a name server is not flooded."""
NEW_LOOKUPS_MAX = 192
"""Of names that nobody has asked for yet: so many may hang before the next one waits for them."""
NEW_PLACES = 32
"""Of these, those that began within the last ``SOON_SECONDS`` and have no answer yet."""
SOON_SECONDS = 0.025
"""A look-up that takes longer gives its place to the next one."""
DOUBTFUL_LOOKUPS_MAX = 32
"""Of names whose last look-up hung. With known and new ones, there are at most 736 threads."""
HUNG_SECONDS = 1.0
"""A look-up that brought no address and took longer hung: the next one of its name waits for others like it. A failure
at once makes no name doubtful, because it holds a thread for a moment only."""
NO_THREAD_SECONDS = 0.05
"""From one try to the next where this machine gives no thread."""
FRESH_SECONDS = 30.0
"""The system does not say how long an answer holds; common names change no faster. After this it is looked up anew
beside the requests, which go on with the old answer until there is another one, or for ``KEPT_SECONDS``."""
KEPT_SECONDS = 60.0
LED_NOWHERE_SECONDS = 10.0
"""An answer older than this that led to no connection is used no more."""
CACHED_NAMES_MAX = 10_000
ADDRESSES_MAX = 16
"""Addresses of a name that are given out; every one it has is checked."""

Lookup = Callable[[str, int], list[str]]


class NameNotResolved(Exception):
    """The name has no address, or the look-up took too long; it is tried again later."""

    code = "name_not_resolved"


class BlockedAddress(Exception):
    """The address, or one address of the name, may not be contacted; ``reason`` says why."""

    code = "blocked_address"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Answer(NamedTuple):
    """Hold the checked addresses of a name, and when they were found."""

    addresses: list[str]
    found_at: float


class Resolver:
    """Looks names up without blocking the loop and gives out only addresses that the guard lets pass.

    Names wait for others of their kind only: those that had an address, those whose last look-up hung, and new ones.
    """

    def __init__(
        self,
        guard: Guard,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        limits: Limits = LIMITS,
    ) -> None:
        self._guard = guard
        self._lookup = lookup or look_up
        self._clock = clock
        self._limits = limits
        self._cached: dict[str, _Answer] = {}
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}
        self._begun: dict[str, float] = {}
        """Since when each name is being looked up: of the others under way nothing is known, they wait."""
        self._doubtful: dict[str, None] = {}
        self._known_threads = asyncio.Semaphore(min(KNOWN_LOOKUPS_MAX, open_files_max() // KNOWN_FILES_SHARE))
        self._known_places = asyncio.Semaphore(KNOWN_PLACES)
        self._new_threads = asyncio.Semaphore(NEW_LOOKUPS_MAX)
        self._new_places = asyncio.Semaphore(NEW_PLACES)
        self._doubtful_threads = asyncio.Semaphore(DOUBTFUL_LOOKUPS_MAX)

    async def resolve(self, host: str, port: int, *, anew: bool = False) -> list[str]:
        """Return the numeric addresses of a name or IP literal, best first, all of them allowed.

        ``anew``: not from an answer that is due for renewal. Raise BlockedAddress when any address of the name is
        refused, NameNotResolved when there is none in time.
        """
        if _is_ip(host):
            return self._checked(host, [host])
        known = self._cached.get(host)
        if known is not None:
            age_seconds = self._clock() - known.found_at
            if age_seconds < FRESH_SECONDS:
                return known.addresses
            if age_seconds < KEPT_SECONDS and not anew:
                self._begin(host, port)
                return known.addresses
        if (reason := self._guard.name_refusal(host)) is not None:
            raise BlockedAddress(reason)
        return await self._found(host, port)

    def led_nowhere(self, host: str) -> None:
        """Look the name up anew next time, unless its answer is young: none of its addresses could be connected to."""
        known = self._cached.get(host)
        if known is not None and self._clock() - known.found_at >= LED_NOWHERE_SECONDS:
            self._cached[host] = known._replace(found_at=-inf)

    def _checked(self, host: str, found: Sequence[str]) -> list[str]:
        for address in found:
            if (reason := self._guard.refusal(address)) is not None:
                raise BlockedAddress(reason if address == host else f"{host}: {reason}")
            if is_inside_name(host) and not self._guard.is_exception(address):
                raise BlockedAddress(f"{host} is an inside name and {address} is not in deliver.allow_networks")
        return list(found[:ADDRESSES_MAX])

    async def _found(self, host: str, port: int) -> list[str]:
        """Wait for the one look-up of this name; it goes on when a waiter gives up, so a hung name holds one thread."""
        task = self._begin(host, port)
        if task is None:
            raise NameNotResolved(f"{host}: too many other names are being looked up")
        done, _ = await asyncio.wait((task,), timeout=self._limits.lookup_seconds_max)
        if not done:
            if host in self._begun:
                self._doubt(host)
            raise NameNotResolved(f"{host}: no answer within {self._limits.lookup_seconds_max:g} s")
        return task.result()

    def _begin(self, host: str, port: int) -> asyncio.Task[list[str]] | None:
        """Return the look-up of a name, begun now unless it is under way; None while too many others are."""
        task = self._under_way.get(host)
        if task is None and len(self._under_way) < self._limits.lookups_waiting_max:
            task = asyncio.get_running_loop().create_task(self._run(host, port))
            task.add_done_callback(_retrieve)
            self._under_way[host] = task
        return task

    async def _run(self, host: str, port: int) -> list[str]:
        try:
            found = await self._in_turn(host, port)
            if not found:
                raise OSError("it has no address")
            addresses = self._checked(host, found)
        except (OSError, UnicodeError) as error:
            if self._clock() - self._begun[host] >= HUNG_SECONDS:
                self._doubt(host)
            else:
                self._doubtful.pop(host, None)
            raise NameNotResolved(f"{host}: {getattr(error, 'strerror', None) or error}") from None
        except BlockedAddress:
            self._doubtful.pop(host, None)
            self._cached.pop(host, None)
            raise
        finally:
            del self._under_way[host]
            self._begun.pop(host, None)
        self._doubtful.pop(host, None)
        self._cached.pop(host, None)
        if len(self._cached) >= CACHED_NAMES_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[host] = _Answer(addresses, self._clock())
        return addresses

    async def _in_turn(self, host: str, port: int) -> list[str]:
        if host in self._doubtful:
            async with self._doubtful_threads:
                return await (await self._ask(host, port))
        is_known = host in self._cached
        threads, places = (
            (self._known_threads, self._known_places) if is_known else (self._new_threads, self._new_places)
        )
        async with threads:
            async with places:
                answer = await self._ask(host, port)
                await asyncio.wait((answer,), timeout=SOON_SECONDS)
            return await answer

    async def _ask(self, host: str, port: int) -> asyncio.Future[list[str]]:
        """Begin the look-up in a thread. Where this machine gives none, wait for one: no name is to blame for that."""
        while True:
            self._begun[host] = self._clock()
            try:
                return _in_thread(self._lookup, host, port)
            except RuntimeError:
                del self._begun[host]
                await asyncio.sleep(NO_THREAD_SECONDS)

    def _doubt(self, host: str) -> None:
        if len(self._doubtful) >= CACHED_NAMES_MAX:
            del self._doubtful[next(iter(self._doubtful))]
        self._doubtful[host] = None


def open_files_max() -> int:
    """Return how many files this process may have open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a name in the order the system prefers them; blocks."""
    # Bytes, because a str would load the IDNA tables; the name is ASCII already.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _retrieve(task: asyncio.Task[list[str]]) -> None:
    """Take note of a failure that came after everyone had given up, so that asyncio does not report it as forgotten."""
    if not task.cancelled():
        task.exception()


def _in_thread(lookup: Lookup, host: str, port: int) -> asyncio.Future[list[str]]:
    """Run a blocking look-up in a daemon thread, because a hung one must not hold up the end of the process.

    Raise RuntimeError where the system gives no thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(found or [])

    def work() -> None:
        found, failure = None, None
        try:
            found = lookup(host, port)
        except Exception as error:  # noqa: BLE001 - the thread's border; the waiter decides what it means
            failure = error
        try:
            loop.call_soon_threadsafe(settle, found, failure)
        except RuntimeError:
            pass  # the loop is gone, and everyone who waited with it

    threading.Thread(target=work, name="look-up", daemon=True).start()
    return answer
