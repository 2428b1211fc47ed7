"""How a connection to a receiver is dialled: which of its addresses is asked first, and the next one beside it where
that is slow (RFC 8305). Only addresses are asked that the resolver gave out, which has checked them all."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from random import shuffle
from time import monotonic

from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.resolver import Resolver

STAGGER_SECONDS = 0.25
"""From one address to the next as long as none has answered (RFC 8305 section 5): four dead ones cost a second."""
ASKED_LAST_SECONDS = 30.0
"""An address that did not answer is asked after the others for so long; then by one connection, to see whether it is
back."""
ASKED_LAST_MAX = 10_000
SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""What the system says when this machine has too little of something; no receiver is to blame."""


class Dialer:
    """Connects to receivers' names; remembers which addresses were dead."""

    def __init__(self, resolver: Resolver, clock: Callable[[], float] = monotonic) -> None:
        self.resolver = resolver
        self._clock = clock
        self._asked_last: dict[tuple[str, int], float] = {}
        """Until when, by address and port."""

    async def dial(self, host: str, port: int, watch: Exchange | None = None) -> tuple[str, socket.socket]:
        """Return one of the name's addresses and a socket that is connected to it; the caller bounds the time.

        Raise what the resolver raises, or the OSError of the address that was asked first.
        """
        began = monotonic()
        addresses: list[str] | None = None
        try:
            addresses = await self.resolver.resolve(host, port)
        finally:
            if watch is not None:
                watch.resolved(began, addresses)
        if len(addresses) == 1:
            dialled = addresses[0], await _connected(addresses[0], port)
        else:
            dialled = await self._first_of(self.in_order(addresses, port), port)
        if watch is not None:
            watch.connected(began, dialled[0])
        return dialled

    def in_order(self, addresses: Sequence[str], port: int) -> list[str]:
        """Return the addresses as they are to be asked: healthy ones in turn, those that were dead at the end.

        The family that the system prefers comes first; its addresses share the connections.
        """
        now = self._clock()
        well: list[str] = []
        dead: list[str] = []
        back: list[str] = []
        for address in addresses:
            until = self._asked_last.get((address, port))
            if until is None:
                well.append(address)
            elif until <= now and not back:
                back.append(address)
                self.was_dead(address, port)  # for everybody else, until it has connected
            else:
                dead.append(address)
        shuffle(well)
        shuffle(dead)
        is_preferred = ":" in addresses[0]
        first = [address for address in well if (":" in address) is is_preferred]
        second = [address for address in well if (":" in address) is not is_preferred]
        healthy = [address for address in chain(*zip_longest(first, second)) if address is not None]
        return back + healthy + dead

    def was_dead(self, address: str, port: int) -> None:
        """Ask an address last for a while: it refused, or did not answer."""
        self._asked_last.pop((address, port), None)
        if len(self._asked_last) >= ASKED_LAST_MAX:
            del self._asked_last[next(iter(self._asked_last))]
        self._asked_last[address, port] = self._clock() + ASKED_LAST_SECONDS

    async def _first_of(self, addresses: Sequence[str], port: int) -> tuple[str, socket.socket]:
        """Ask one after the other, each beside those that have not answered yet; the first to connect is taken."""
        left = deque(addresses)
        asked: list[tuple[str, asyncio.Task[socket.socket]]] = []
        failed: OSError | None = None
        try:
            while left or asked:
                if left:
                    address = left.popleft()
                    asked.append((address, asyncio.get_running_loop().create_task(_connected(address, port))))
                wait_seconds = STAGGER_SECONDS if left else None
                await asyncio.wait(
                    [task for _, task in asked], timeout=wait_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for each in [each for each in asked if each[1].done()]:
                    address, task = each
                    if (error := task.exception()) is None:
                        self._has_answered(address, port, asked[: asked.index(each)])
                        asked.remove(each)
                        return address, task.result()
                    asked.remove(each)
                    if not isinstance(error, OSError):
                        raise error
                    if error.errno in SHORT:
                        failed = error
                    else:
                        self.was_dead(address, port)
                        failed = failed or error
            raise failed or OSError("the name has no address")
        except asyncio.CancelledError:  # the time for all of it is over
            for address, _ in asked:
                self.was_dead(address, port)
            raise
        finally:
            for _, task in asked:
                task.cancel()
                task.add_done_callback(_let_go)

    def _has_answered(self, address: str, port: int, before: Sequence[tuple[str, object]]) -> None:
        """An address has connected, and those that were asked ``before`` it have not."""
        self._asked_last.pop((address, port), None)
        for slow, _ in before:
            self.was_dead(slow, port)


async def _connected(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    plain = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio sets TCP_NODELAY only where it says so
    try:
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (address, port))
    except BaseException:
        plain.close()
        raise
    return plain


def _let_go(task: asyncio.Task[socket.socket]) -> None:
    """Close what has connected although another address was taken."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
