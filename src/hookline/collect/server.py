"""The collection edge as one object: listening, the snapshot in force, and an orderly end."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import TYPE_CHECKING

from hookline.beats import seconds_to_beat
from hookline.client_address import ProxyHeader
from hookline.collect.batch import BrowserAddresses
from hookline.collect.counters import Counters
from hookline.collect.decode import (
    BACKLOG_CONNECTIONS,
    BUFFERED_BYTES_MAX,
    CONNECTIONS_MAX,
    DESCRIPTORS_KEPT,
    DRAIN_SECONDS_MAX,
    QUIET_SECONDS,
    QUIET_SWEEP_SECONDS,
    SWEEP_SECONDS,
    UNPROVEN_CONNECTIONS_MAX,
    UPLOAD_SECONDS_MAX,
)
from hookline.collect.http.clients import ClientNetworks, Clients
from hookline.collect.http.connection import Connection
from hookline.collect.http.downloads import Downloads
from hookline.collect.intake import Appends, Intake
from hookline.collect.rate_limits import RateLimits
from hookline.connections.model import Snapshot
from hookline.listening import all_bound, take_no_more
from hookline.privacy.suppressions import Suppressed
from hookline.settings import Settings, parse_listen

if TYPE_CHECKING:
    from hookline.collect.budget import Verdict
    from hookline.telemetry.tracing import Tracing


def connections_allowed() -> int:
    """Return how many connections there may be: whoever takes the last descriptor keeps the journal from its next
    segment."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return min(CONNECTIONS_MAX, most - min(DESCRIPTORS_KEPT, most // 4))


class Edge:
    """The public collection API on one or more listening sockets; not ready before the first ``set_snapshot``."""

    def __init__(
        self,
        appender: Appends,
        settings: Settings,
        counters: Counters | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        connections_max: int = CONNECTIONS_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
        unproven_max: int = UNPROVEN_CONNECTIONS_MAX,
        tracing: Tracing | None = None,
    ) -> None:
        self.counters = counters or Counters()
        self._settings = settings
        proxies = [ip_network(each) for each in settings.collect.trusted_proxies]
        networks = ClientNetworks(proxies)
        limits = RateLimits(settings.collect, networks, clock)
        self._intake = _intake(appender, self.counters, clock, Downloads(settings), limits, tracing)
        self._intake.browser_addresses = BrowserAddresses(proxies)
        self._intake.client_networks = networks
        self._clients = Clients(
            self.counters, clock, connections_max, buffered_bytes_max, unproven_max, proxies, settings.collect
        )
        self._proxies = proxies
        self._accept = self._connect_handed_on if settings.collect.proxy_protocol else self._connect
        self._servers: list[tuple[asyncio.Server, socket.socket]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.is_quiet = False
        """Whether nobody was connected at the last sweep, and nobody has since."""
        self.on_client: Callable[[], object] = lambda: None
        """Called when somebody connects and nobody was."""

    @property
    def ready(self) -> bool:
        """Return what ``/readyz`` answers."""
        return self._intake.ready

    def set_snapshot(self, snapshot: Snapshot, kept: bool = False) -> None:
        """Use these sources and write keys from the next request on; ``kept`` ones, of the disk, may be old."""
        self._intake.set_snapshot(snapshot, may_be_old=kept)
        self._intake.kept = kept

    def doubt(self, may_be_old: bool) -> None:
        """Say whether the sources in use may be old: then other write keys are answered 503, for they may be new."""
        self._intake.doubt(may_be_old)

    def stand_by(self, stands_by: bool) -> None:
        """Take no events as long as nobody can tell whose must not be stored."""
        self._intake.stand_by(stands_by)

    @property
    def kept(self) -> bool:
        """Return whether the sources in use are those that were kept on the disk."""
        return self._intake.kept

    def refuse(self, verdict: Verdict | None) -> None:
        """Answer these sources 503 from the next request on; None for nobody."""
        self._intake.refusing = verdict

    def suppress(self, suppressed: Suppressed | None) -> None:
        """Store no events of these people from now on; None for nobody."""
        self._intake.suppress(suppressed)

    @property
    def away(self) -> bool:
        """Return whether the journal is known not to take records just now."""
        return self._intake.away

    def set_away(self, away: bool) -> None:
        """Say in ``/readyz`` whether the journal takes records just now."""
        self._intake.away = away

    async def serve(self, host: str | None = None, port: int | None = None) -> tuple[str, int]:
        """Listen on an address, by default that of the settings; return the one bound (port 0 takes a free one)."""
        default_host, default_port = parse_listen(self._settings.collect.listen)
        host, port = host if host is not None else default_host, port if port is not None else default_port
        return await self.start(all_bound(host, port))

    async def start(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Listen on sockets that are already bound; return the address of the first."""
        loop = asyncio.get_running_loop()
        for each in sockets:
            server = await loop.create_server(self._accept, sock=each, backlog=BACKLOG_CONNECTIONS)
            self._servers.append((server, each))
        if self._timer is None:
            self._tick()
        host, port = self._servers[0][1].getsockname()[:2]
        return host, port

    async def leave(self, delay_seconds: float, is_handed_on: bool = False) -> None:
        """Say that calls should go elsewhere, and serve on for so long and until what is arriving now has arrived.

        Every answer is its connection's last one. Where somebody else goes on to listen on the sockets, calls need not
        go elsewhere: a balancer that was told so would have nowhere to send them.
        """
        self._clients.draining = True
        if not is_handed_on:
            self._intake.stops = True
            await asyncio.sleep(delay_seconds)
        await self._clients.uploaded(UPLOAD_SECONDS_MAX)

    async def stop(self, is_handed_on: bool = False) -> None:
        """Accept no more, answer what has been asked, close; about 5 s at most. Idempotent.

        Connections that wait to be accepted are so before, unless somebody else goes on to listen on the sockets.
        """
        self._intake.stops = not is_handed_on
        self._clients.draining = True
        for server, each in self._servers:
            if not is_handed_on:
                await take_no_more(each)
            server.close()
        self._servers.clear()
        await self._clients.emptied(QUIET_SECONDS)
        await self._clients.drain(DRAIN_SECONDS_MAX)
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.is_quiet = None, False

    def sweep(self) -> None:
        """Close what is past its deadline; called twice a second while the edge is up."""
        self._clients.sweep()

    def _connect(self) -> Connection:
        if self.is_quiet:  # the coarse clock stood still
            self._tick(is_quiet=False)
            self.on_client()
        return Connection(self._clients, self._intake)

    def _connect_handed_on(self) -> asyncio.Protocol:
        return ProxyHeader(self._proxies, self._connect)

    def _tick(self, is_quiet: bool | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_quiet = not self.counters.open_connections if is_quiet is None else is_quiet
        seconds = seconds_to_beat(QUIET_SWEEP_SECONDS if self.is_quiet else SWEEP_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)
        self._clients.sweep()


def _intake(
    appender: Appends,
    counters: Counters,
    clock: Callable[[], float],
    downloads: Downloads,
    limits: RateLimits,
    tracing: Tracing | None,
) -> Intake:
    if tracing is None:
        return Intake(appender, counters, clock, downloads, limits)
    from hookline.collect.traced_intake import TracedIntake

    return TracedIntake(appender, counters, clock, downloads, limits, tracing)
