"""The look-up of receiver names: resolves without blocking the loop and gives out only addresses the guard lets pass.

A name is resolved here once, every address of it is checked, and the caller connects to exactly one of the addresses
returned, so that no second look-up can answer differently (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from hookline.deliver.send.guard import Guard, is_inside_name, same_address
from hookline.limits import LIMITS, Limits

__all__ = ["BlockedAddress", "Guard", "NameNotResolved", "Resolver", "look_up", "same_address"]

LOOKUPS_MAX = 16
"""Look-ups under way at once, each in a thread of its own; the rest wait."""
DOUBTFUL_LOOKUPS_MAX = LOOKUPS_MAX // 4
"""Of these for names whose last look-up failed or hung: they must not starve the healthy ones (DESIGN 4)."""
CACHED_SECONDS_MAX = 10.0
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


class Resolver:
    """Looks names up without blocking the loop and gives out only addresses that the guard lets pass."""

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
        self._cached: dict[str, tuple[float, list[str]]] = {}
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}
        self._doubtful: dict[str, None] = {}
        self._slots = asyncio.Semaphore(LOOKUPS_MAX - DOUBTFUL_LOOKUPS_MAX)
        self._doubtful_slots = asyncio.Semaphore(DOUBTFUL_LOOKUPS_MAX)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the numeric addresses of a name or IP literal, best first, all of them allowed.

        Raise BlockedAddress when any address of the name is refused, NameNotResolved when there is none in time.
        """
        if _is_ip(host):
            return self._checked(host, [host])
        cached = self._cached.get(host)
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        if (reason := self._guard.name_refusal(host)) is not None:
            raise BlockedAddress(reason)
        addresses = self._checked(host, await self._found(host, port))
        if len(self._cached) >= CACHED_NAMES_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[host] = (self._clock() + CACHED_SECONDS_MAX, addresses)
        return addresses

    def _checked(self, host: str, found: Sequence[str]) -> list[str]:
        for address in found:
            if (reason := self._guard.refusal(address)) is not None:
                raise BlockedAddress(reason if address == host else f"{host}: {reason}")
            if is_inside_name(host) and not self._guard.is_exception(address):
                raise BlockedAddress(f"{host} is an inside name and {address} is not in deliver.allow_networks")
        return list(found[:ADDRESSES_MAX])

    async def _found(self, host: str, port: int) -> list[str]:
        """Wait for the one look-up of this name; it goes on when a waiter gives up, so a hung name holds one thread."""
        task = self._under_way.get(host)
        if task is None:
            if len(self._under_way) >= self._limits.lookups_waiting_max:
                raise NameNotResolved(f"{host}: too many other names are being looked up")
            task = asyncio.get_running_loop().create_task(self._run(host, port))
            task.add_done_callback(_retrieve)
            self._under_way[host] = task
        done, _ = await asyncio.wait((task,), timeout=self._limits.lookup_seconds_max)
        if not done:
            self._doubt(host)
            raise NameNotResolved(f"{host}: no answer within {self._limits.lookup_seconds_max:g} s")
        return task.result()

    async def _run(self, host: str, port: int) -> list[str]:
        slots = self._doubtful_slots if host in self._doubtful else self._slots
        try:
            async with slots:
                found = await _in_thread(self._lookup, host, port)
            if not found:
                raise OSError("it has no address")
        except (OSError, UnicodeError) as error:
            self._doubt(host)
            raise NameNotResolved(f"{host}: {getattr(error, 'strerror', None) or error}") from None
        finally:
            del self._under_way[host]
        self._doubtful.pop(host, None)
        return found

    def _doubt(self, host: str) -> None:
        if len(self._doubtful) >= CACHED_NAMES_MAX:
            del self._doubtful[next(iter(self._doubtful))]
        self._doubtful[host] = None


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


async def _in_thread(lookup: Lookup, host: str, port: int) -> list[str]:
    """Run a blocking look-up in a daemon thread, because a hung one must not hold up the end of the process."""
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
    return await answer
