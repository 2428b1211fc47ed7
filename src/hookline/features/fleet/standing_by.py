"""What a control that waits for its turn does: it serves the probes and the metrics of its own machine's roles, and
adds what they count to the time series.

Without it nobody could scrape, or ask how it is, a machine that collects and delivers while another one has the pages,
and the charts would lack what it did.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from types import TracebackType

import msgspec

from hookline.api.gates import OPEN_PATHS, HostNames
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseError, engine
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import STANDING_BY, WholeMachine, asks_for_all, machine_of
from hookline.features.insights.service import POLL_SECONDS, SeriesWatch
from hookline.insights.series import SeriesStore
from hookline.listening import all_bound, handed_on
from hookline.settings import Settings, parse_listen
from hookline.telemetry.log import logger

HEAD_BYTES_MAX = 8 * 1024
EXCHANGE_SECONDS = 5.0
JSON = "application/json"
ASK_ELSEWHERE = (
    b'{"code":"standing_by","status":503,"title":"Another machine serves this","detail":"Control stands by on this'
    b" machine: another one that shares its database serves the API and the pages. Ask that one (on the command line:"
    b' --api), or stop it to have this one take over."}'
)
NOT_READY = b'{"status":"standing_by"}'


class StandingBy:
    """Listens on ``control.listen`` as long as it is entered; goes without where that address is taken."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._listen = settings.control.listen
        self._names = HostNames(settings)
        self._metrics = RoleMetrics(settings.data_path)
        self._whole = WholeMachine(settings.data_path, self._metrics)
        self._servers: list[asyncio.Server] = []
        self._counting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        host, port = parse_listen(self._listen)
        try:
            for each in handed_on() or all_bound(host, port):
                self._servers.append(await asyncio.start_server(self._answer, sock=each, limit=HEAD_BYTES_MAX))
        except OSError as error:
            logger().warning("not_listening", address=self._listen, reason=str(error))
        self._counting = asyncio.create_task(self._count())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._servers:
            each.close()
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    async def _count(self) -> None:
        place, machine = location_of(self._settings, "insights"), machine_of(self._settings)
        store: SeriesStore | None = None
        while store is None:
            try:
                store = await asyncio.to_thread(SeriesStore, place, machine)
            except (DatabaseError, engine.Error):
                await asyncio.sleep(POLL_SECONDS)
        try:
            await SeriesWatch(self._settings.data_path, store, self._metrics).run_forever()
        finally:
            store.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Python 3.11 would log it as an error that a connection is cancelled when this process ends.
        ended = OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
        with contextlib.suppress(*ended):
            async with asyncio.timeout(EXCHANGE_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status, kind, body = self._answered(head)
                lines = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                lines += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(lines.encode() + body)
                await writer.drain()
        writer.close()

    def _answered(self, head: str) -> tuple[HTTPStatus, str, bytes]:
        request, *lines = head.split("\r\n")
        path, _, query = (request.split(" ")[1:2] or [""])[0].partition("?")
        hosts = [line.partition(":")[2] for line in lines if line.lower().startswith("host:")]
        if path not in OPEN_PATHS and not (len(hosts) == 1 and self._names.allows(hosts[0])):
            return HTTPStatus.MISDIRECTED_REQUEST, JSON, b'{"code":"unknown_host"}'
        if path == "/healthz":
            return HTTPStatus.OK, JSON, b'{"status":"ok"}'
        if path == "/metrics" and request.startswith("GET "):
            # Only a scraped machine pays for it.
            from hookline.features.fleet.exposition import CONTENT_TYPE, exposition

            return HTTPStatus.OK, CONTENT_TYPE, exposition(self._metrics.reports())
        if path == "/readyz" and asks_for_all(query.encode("latin-1")):
            whole = self._whole.look(STANDING_BY)
            return HTTPStatus.OK if whole.is_ready else HTTPStatus.SERVICE_UNAVAILABLE, JSON, msgspec.json.encode(whole)
        return HTTPStatus.SERVICE_UNAVAILABLE, JSON, NOT_READY if path in OPEN_PATHS else ASK_ELSEWHERE
