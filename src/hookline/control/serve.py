"""The control role as a process: opens its database, applies the connections file, serves, and stops quickly."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import uvloop

from hookline.api import client_connection
from hookline.api.auth.service import admin_token, login_link
from hookline.api.calls import current_call, may_refer, note_version
from hookline.api.client_connection import Clients
from hookline.api.services import Services
from hookline.beats import Bell
from hookline.client_address import ProxyHeader
from hookline.connections.model import AnySettings
from hookline.connections.secrets import KEPT_MS
from hookline.connections.store import Store
from hookline.control.front import Routes, build
from hookline.database.sqlite import DatabaseAway, engine
from hookline.deliver.send.client_certificate import fault_of
from hookline.features.audiences.service import definition_watch
from hookline.features.connections.service import CannotStart
from hookline.features.destinations.service import lane_watch
from hookline.features.events.service import live_events
from hookline.features.fleet.service import own_metrics
from hookline.features.insights.service import series_watch
from hookline.features.issues.service import issue_watch
from hookline.features.notices.service import notice_watch, notice_webhooks
from hookline.features.notices.webhooks import InvalidNoticeWebhooks
from hookline.features.notifications.service import notification_watch
from hookline.features.privacy.service import deletion_watch
from hookline.features.replays.service import replay_watch
from hookline.features.sources.service import schema_watcher
from hookline.freed_memory import EVERY_SECONDS, give_back
from hookline.listening import SETTLE_SECONDS, has_successor, listening_at, take_no_more
from hookline.privacy.id_digest import PrivacyKeyError
from hookline.settings import Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from litestar.types import ASGIApp

WATCHES = (
    lane_watch,
    replay_watch,
    notice_watch,
    notice_webhooks,
    notification_watch,
    series_watch,
    schema_watcher,
    issue_watch,
    definition_watch,
    deletion_watch,
)
"""What a feature does by itself, beside the calls; each is made before the first call, so that what fails says so."""
FAULT_SECONDS = 5.0
"""Until a watch begins again that a fault of ours has ended."""
OLD_SECRETS_POLL_SECONDS = 3600.0
"""They are kept for 30 days: an hour more or less is nothing."""
WORK_SECONDS = 0.5
"""Of the processor's time, since memory was given back: who shows nothing to anybody needs less, and rests."""
BACKLOG = 128
GRACE_SECONDS = 1
"""For requests being answered when a stop begins; streams are ended at once."""
QUIET_SECONDS = 0.25
"""How long a kept connection may be silent then before it is closed: a request may be on its way on it."""
TICK_SECONDS = 1.0
"""From one writing of the date that answers carry, and one look for clients that take too long, to the next."""


def run(
    settings: Settings,
    store: Store,
    one_time_link: bool = False,
    *,
    pages: Routes | None = None,
    stop_descriptor: int | None = None,
    origins: Mapping[str, str] | None = None,
) -> int:
    """Serve until SIGTERM, SIGINT, or until ``stop_descriptor`` closes; return the exit code.

    ``pages`` makes their routes, at the first request for one. ``origins`` says where each setting came from, by key.

    Raise CannotStart, CannotListen or AdminTokenError, with what to do.
    """
    services, listening = start(settings, store)
    services.origins = origins or {}
    if one_time_link:
        login_link(services).make(base_url(settings, listening[0]))
    try:
        uvloop.run(_serve(services, listening, pages, stop_descriptor))
    finally:
        services.close()
        services.store.close()
    return 0


def start(settings: Settings, store: Store) -> tuple[Services, list[socket.socket]]:
    """Do everything that can fail before serving; raise CannotStart, CannotListen or AdminTokenError, with what
    to do."""
    store.on_version, store.may_refer = note_version, may_refer
    store.certificate_fault = partial(_certificate_fault, settings)
    listening = listening_at("control.listen", settings.control.listen)
    try:
        services = Services(settings, store)
        for make in (admin_token, *WATCHES):
            make(services)
        return services, listening
    except (InvalidNoticeWebhooks, PrivacyKeyError) as error:
        raise CannotStart(str(error)) from None


def _certificate_fault(settings: Settings, wanted: AnySettings) -> str | None:
    """Judge what a request wants saved; what no request asked for must not keep the service from starting."""
    pair = wanted.certificate_pair
    return fault_of(pair, settings) if pair is not None and current_call() is not None else None


async def _serve(
    services: Services,
    listening: list[socket.socket],
    pages: Routes | None,
    stop_descriptor: int | None,
) -> None:
    server = Server(services, pages)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, server.stop)
    if stop_descriptor is not None:
        loop.add_reader(stop_descriptor, _stop_once, loop, stop_descriptor, server)
    services.ready = True
    logger().info("control_ready", address=services.settings.control.listen)
    forever: dict[str, Callable[[], Awaitable[None]]] = {
        "report": partial(own_metrics(services).report_forever, services.settings.data_path / "run"),
        "old_secrets": partial(remove_old_secrets_forever, services.store),
        "freed_memory": give_back_forever,
        **{watch.__name__: watch(services).run_forever for watch in WATCHES},
    }
    beside = [loop.create_task(kept_on(name, run)) for name, run in forever.items()]
    await server.serve(sockets=listening)
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    logger().info("control_stopped")


async def kept_on(name: str, run_forever: Callable[[], Awaitable[None]]) -> None:
    """Begin a watch again when a fault of ours has ended it: what it looks after would wait for the next start."""
    while True:
        try:
            return await run_forever()
        except Exception:  # noqa: BLE001 - the border of all watches
            logger().error("watch_failed", watch=name, exc_info=True)
        await asyncio.sleep(FAULT_SECONDS)


async def remove_old_secrets_forever(store: Store) -> None:
    """Take secrets out of the history of connections 30 days after they left force, looking once an hour."""
    while True:
        try:
            now_ms = min(store.now_ms(), store.steady_ms())  # a clock that is set forward makes nothing older
            removed = await asyncio.to_thread(store.remove_old_secrets, now_ms - KEPT_MS)
            if removed:
                logger().info("old_secrets_removed", destinations=removed)
        except (DatabaseAway, engine.Error) as error:
            logger().warning("old_secrets_not_removed", error=str(error), next_step="it is tried again in an hour")
        await asyncio.sleep(OLD_SECRETS_POLL_SECONDS)


async def give_back_forever() -> None:
    """Give freed memory back to the system while there is work: a page, or a look at a journal on Kafka, leaves as much
    behind as it took."""
    worked_seconds = 0.0
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if time.process_time() - worked_seconds >= WORK_SECONDS:
            give_back()
            worked_seconds = time.process_time()


def _stop_once(loop: asyncio.AbstractEventLoop, descriptor: int, server: Server) -> None:
    loop.remove_reader(descriptor)  # a closed pipe stays readable
    server.stop()


class Server(client_connection.Server):
    """uvicorn that hears of a stop at once, and then ends the event streams, which it would otherwise wait for."""

    def __init__(self, services: Services, pages: Routes | None = None) -> None:
        idle_seconds_max = services.settings.control.idle_timeout
        self._clients = Clients(own_metrics(services).connections_ended, idle_seconds_max)
        super().__init__(_config(build(services, pages), self._clients, services.settings))
        self._services = services
        self._stopping = Bell()

    def stop(self) -> None:
        """Begin to stop; called again, stop without waiting."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._clients.are_leaving = True
        self._stopping.ring()
        # Whose sockets another one takes over stays ready: no balancer needs to send its calls elsewhere.
        self._services.ready = self._services.ready and has_successor()
        live_events(self._services).close()

    async def main_loop(self) -> None:
        """Wait for the stop, where uvicorn looks for it ten times a second."""
        while not await self.on_tick(0):
            self._clients.sweep()
            await self._stopping.rest(TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing new and let what is being answered end, for which uvicorn waits although nobody is there."""
        if not has_successor():
            for each in sockets or ():
                await take_no_more(each)
        for server in self.servers:
            server.close()
        # Who was accepted in this very turn is known to uvicorn only later; ended now, its request would be cut off.
        await asyncio.sleep(SETTLE_SECONDS)
        if self.server_state.connections:
            await asyncio.sleep(QUIET_SECONDS)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
        else:
            for each in sockets or ():
                each.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: uvicorn would raise them again once it has stopped, and the exit code is 0."""
        yield


def _config(app: ASGIApp, clients: Clients, settings: Settings) -> client_connection.Config:
    connect: Callable[..., asyncio.Protocol] = clients.connect
    if settings.control.proxy_protocol:
        trusted = [ip_network(each) for each in settings.collect.trusted_proxies]

        def connect(*arguments: Any, **named: Any) -> asyncio.Protocol:
            return ProxyHeader(trusted, partial(clients.connect, *arguments, **named))

    return client_connection.Config(
        app,
        http=connect,  # type: ignore[arg-type]  # all that is done with it is to call it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(clients.idle_seconds_max),
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )


def base_url(settings: Settings, listening: socket.socket) -> str:
    """Return where a browser on this machine finds the pages."""
    if settings.control.public_url:
        return settings.control.public_url
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
