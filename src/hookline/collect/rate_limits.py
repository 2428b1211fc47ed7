"""How much sources and addresses may send: token buckets on the edge's clock, and 429 with the seconds until then.

A request is taken whole while anything is left, and goes into debt for the rest: no batch is too large for a limit,
none is taken in part, and over time the rate holds all the same. Refusing is cheap: who has nothing left is told before
its body is inflated.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from hookline.collect.decode import RETRY_AFTER_SECONDS_MAX
from hookline.collect.http.clients import Address, ClientNetworks
from hookline.collect.http.request import Exchange
from hookline.connections.model import Snapshot, Source
from hookline.rate_limit import RateLimit
from hookline.settings import Collect

ADDRESSES_BYTES_MAX = 8 * 1024 * 1024
ADDRESS_BYTES = 512
"""What one address costs: its key, two buckets and its place; the one heard of longest ago is forgotten."""
ADDRESSES_MAX = ADDRESSES_BYTES_MAX // ADDRESS_BYTES


class RateLimited(Exception):
    """The request is not taken now; ``by_address`` says whose limit it is."""

    def __init__(self, wait_seconds: float, by_address: bool) -> None:
        super().__init__(wait_seconds)
        self.retry_seconds = min(max(1, math.ceil(wait_seconds)), RETRY_AFTER_SECONDS_MAX)
        self.by_address = by_address


class Buckets:
    """The events and the bytes that may still come; below zero is debt."""

    __slots__ = ("_at", "_bytes", "_bytes_max", "_bytes_rate", "_events", "_events_max", "_events_rate", "limit")

    def __init__(self, limit: RateLimit, now: float) -> None:
        self.limit = limit
        events, bytes_, burst = limit.bounds()
        self._events_rate = math.inf if events is None else events
        self._bytes_rate = math.inf if bytes_ is None else bytes_
        self._events = self._events_max = max(1.0, self._events_rate * burst)
        self._bytes = self._bytes_max = max(1.0, self._bytes_rate * burst)
        self._at = now

    def wait_seconds(self, now: float) -> float:
        """Return how long nothing is taken yet; 0 when something is."""
        passed, self._at = now - self._at, now
        if passed > 0:
            self._events = min(self._events_max, self._events + passed * self._events_rate)
            self._bytes = min(self._bytes_max, self._bytes + passed * self._bytes_rate)
        if self._events >= 1 and self._bytes >= 1:
            return 0.0
        return max(_until(self._events, self._events_rate), _until(self._bytes, self._bytes_rate))

    def spend(self, events: int, bytes_: int) -> None:
        """Take what came."""
        self._events -= events
        self._bytes -= bytes_


class RateLimits:
    """The limits in force, by source and by address; made only where there is one."""

    def __init__(self, collect: Collect, networks: ClientNetworks, clock: Callable[[], float]) -> None:
        self._usual = collect.rate_limit
        self._per_address = collect.rate_limit_per_address
        self._networks = networks
        self._clock = clock
        self._sources: dict[str, Buckets] = {}
        self._addresses: OrderedDict[str, Buckets] = OrderedDict()

    def set_snapshot(self, snapshot: Snapshot) -> bool:
        """Use these sources' limits; who had the same one goes on where it was. Return whether there is any limit."""
        limits = {source.id: self._limit_of(source) for source in snapshot.sources}
        before, now = self._sources, self._clock()
        self._sources = {}
        for id, limit in limits.items():
            if limit is not None:
                known = before.get(id)
                self._sources[id] = known if known is not None and known.limit == limit else Buckets(limit, now)
        return bool(self._sources) or self._per_address is not None

    def check(self, exchange: Exchange) -> None:
        """Raise RateLimited when the address or the source, as far as it is known, has nothing left."""
        if self._per_address is not None and (wait := self._address(exchange).wait_seconds(self._clock())) > 0:
            raise RateLimited(wait, by_address=True)
        if exchange.source is not None:
            self.check_source(exchange.source)

    def check_source(self, source: Source) -> None:
        """Raise RateLimited when the source has nothing left."""
        buckets = self._sources.get(source.id)
        if buckets is not None and (wait := buckets.wait_seconds(self._clock())) > 0:
            raise RateLimited(wait, by_address=False)

    def spend(self, exchange: Exchange, events: int, bytes_: int) -> None:
        """Count a request that was not refused for its rate, whatever came of it; a refused one is one event."""
        if self._per_address is not None:
            self._address(exchange).spend(events, bytes_)
        if exchange.source is not None and (buckets := self._sources.get(exchange.source.id)) is not None:
            buckets.spend(events, bytes_)

    def _limit_of(self, source: Source) -> RateLimit | None:
        limit = self._usual if source.rate_limit is None else source.rate_limit.over(self._usual)
        return limit if limit is not None and (limit.events is not None or limit.bytes is not None) else None

    def _address(self, exchange: Exchange) -> Buckets:
        assert self._per_address is not None, "asked for only where addresses are limited"
        key = self._group(exchange)
        buckets = self._addresses.get(key)
        if buckets is None:
            buckets = self._addresses[key] = Buckets(self._per_address, self._clock())
            if len(self._addresses) > ADDRESSES_MAX:
                self._addresses.popitem(last=False)
        else:
            self._addresses.move_to_end(key)
        return buckets

    def _group(self, exchange: Exchange) -> str:
        address: Address | None = exchange.line.address
        if address is None:
            return ""
        if not address.trusted:
            return address.group
        return self._networks.of(address, exchange.headers)


def _until(left: float, rate: float) -> float:
    return 0.0 if left >= 1 else (1 - left) / rate
