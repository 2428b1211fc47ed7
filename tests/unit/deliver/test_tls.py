"""TLS to receivers: what a closed connection leaves behind, and which sessions are resumed."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hookline.bench.service import free_port
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import tls as tls_module
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import SESSIONS_MAX, KeptSession, Sessions, TlsTransport, tls_context
from hookline.outcomes.outcome import Outcome
from hookline.settings import Settings
from tests.service.deliver.certificates import Authority
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results
from tests.unit.deliver.test_resending import LOOPS, run

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
REQUESTS = 30
HELD = (Connection, TlsTransport, ssl.SSLObject, ssl.SSLSession, ssl.MemoryBIO, asyncio.Task)
ENDS = {
    "answered": (CLOSING, Outcome.SUCCESS),
    "cut off": (b"HTTP/1.1 200 OK\r\nContent-Le", Outcome.CONNECTION_FAILED),
    "not trusted": (CLOSING, Outcome.TLS_REFUSED),
    "no TLS": (CLOSING, Outcome.TLS_REFUSED),
    "closes at once": (CLOSING, Outcome.CONNECTION_FAILED),
}


class Receiver:
    """Answers every request with the same bytes and notes whether its connection was resumed."""

    def __init__(self, answer: bytes = CLOSING) -> None:
        self.answer = answer
        self.resumed: list[bool] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection's one request."""
        try:
            await reader.readuntil(b"\r\n\r\n")
            secured = writer.get_extra_info("ssl_object")
            self.resumed.append(bool(secured and secured.session_reused))
            writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def ask(pools: Pools, port: int, count: int = 1, host: str = "127.0.0.1", pair: Any = None) -> list[Outcome]:
    """Send requests one after the other; return their outcomes."""
    outcomes = []
    for _ in range(count):
        result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        pools.of(parse_receiver_url(f"https://{host}:{port}/"), pair).send(NO_TARGET, [(result, REQUEST)])
        outcomes.append(await asyncio.wait_for(result, 30))
    return outcomes


def pools_for(ca_file: str | None, addresses: list[str] | None = None) -> Pools:
    """Pools that lead every name to this machine."""
    guard = Guard(["127.0.0.0/8"], lambda address: False)
    return Pools(Results(), Resolver(guard, lambda host, port: addresses or ["127.0.0.1"]), tls_context(ca_file))


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector waits, as it does for long in deliver."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live() -> dict[str, int]:
    """Count what is there of what a connection is made of."""
    kinds = Counter(map(type, gc.get_objects()))
    return {held.__name__: sum(kinds[kind] for kind in kinds if issubclass(kind, held)) for held in HELD}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("end", ENDS)
def test_closed_connections_leave_nothing_to_collect(
    end: str, loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """However they end, many TLS connections leave no more objects behind than one."""
    answer, expected = ENDS[end]
    authority = Authority(tmp_path)
    receiver = Receiver(answer)

    async def know_no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer if end == "no TLS" else b"")
        writer.close()

    async def scenario() -> tuple[dict[str, int], dict[str, int]]:
        serve = know_no_tls if end in ("no TLS", "closes at once") else receiver.serve
        secured = None if end in ("no TLS", "closes at once") else authority.server(self_signed=end == "not trusted")
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secured) as server:
            pools, port = pools_for(str(authority.file)), server.sockets[0].getsockname()[1]
            assert await ask(pools, port) == [expected]
            await settled()
            before = live()
            assert await ask(pools, port, REQUESTS) == [expected] * REQUESTS
            await settled()
            after = live()
            pools.close()
            return before, after

    before, after = run(loop, scenario())
    # The receiver runs in this process, on the loop's own TLS: its objects are not the sender's.
    own = ("Connection", "TlsTransport", "SSLSession", "Task")
    assert {name: after[name] for name in own} == {name: before[name] for name in own}
    assert after["TlsTransport"] == after["Connection"] == 0


async def settled() -> None:
    """Let what is closing be closed."""
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_session_of_an_origin_is_resumed(
    version: ssl.TLSVersion, loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """The first connection shakes hands in full, those after it resume, by TLS 1.2 as by TLS 1.3."""
    authority, receiver = Authority(tmp_path), Receiver()
    server_tls = authority.server()
    server_tls.maximum_version = version

    async def scenario() -> None:
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=server_tls) as server:
            pools = pools_for(str(authority.file))
            assert set(await ask(pools, server.sockets[0].getsockname()[1], 4)) == {Outcome.SUCCESS}
            pools.close()

    run(loop, scenario())
    assert receiver.resumed == [False, True, True, True]


def resumed_of(tmp_path: Path, scenario: Callable[[Authority, int], Any]) -> list[bool]:
    """Run what is asked of a receiver for any name; return which of its connections were resumed."""
    authority, receiver = Authority(tmp_path), Receiver()
    contexts = {host: authority.server(host) for host in ("127.0.0.1", "a.example", "b.example")}
    server_tls = contexts["127.0.0.1"]

    def choose(secured: ssl.SSLObject, name: str | None, _: object) -> None:
        secured.context = contexts.get(name or "", server_tls)

    server_tls.sni_callback = choose

    async def whole() -> None:
        port = free_port()
        async with await asyncio.start_server(receiver.serve, ["127.0.0.1", "127.0.0.2"], port, ssl=server_tls):
            await scenario(authority, port)

    asyncio.run(whole())
    return receiver.resumed


class ReceiverInPieces:
    """Answers the first request on its connection in records of so many bytes each."""

    def __init__(self, answer: bytes, record_bytes: int) -> None:
        self.answer = answer
        self.record_bytes = record_bytes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection's one request."""
        try:
            await reader.readuntil(b"\r\n\r\n")
            for at in range(0, len(self.answer), self.record_bytes):
                writer.write(self.answer[at : at + self.record_bytes])
            await writer.drain()
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("head", "body", "record_bytes", "expected"),
    [
        (1_000, 1_000, 1, Outcome.SUCCESS),
        (50_000, 2, 60_000, Outcome.SUCCESS),
        (50_000, 60_000, 100, Outcome.SUCCESS),
        (50_000, 2, 1, Outcome.CONNECTION_FAILED),
        (10, 60_000, 1, Outcome.SUCCESS),
    ],
)
def test_the_records_of_one_answer_are_bounded(
    head: int, body: int, record_bytes: int, expected: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer in thousands of tiny records is cut; the protocol gets what came in one read in one piece."""
    answer = b"HTTP/1.1 200 OK\r\nX-Pad: %b\r\nContent-Length: %d\r\n\r\n%b" % (b"a" * head, body, b"b" * body)
    authority = Authority(tmp_path)
    pieces: list[int] = []
    take = Connection.data_received
    monkeypatch.setattr(Connection, "data_received", lambda self, data: (pieces.append(len(data)), take(self, data)))

    async def scenario() -> list[Outcome]:
        receiver = ReceiverInPieces(answer, record_bytes)
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=authority.server()) as server:
            pools = pools_for(str(authority.file))
            outcomes = await ask(pools, server.sockets[0].getsockname()[1])
            await settled()
            pools.close()
            return outcomes

    assert asyncio.run(scenario()) == [expected]
    assert len(pieces) < 2_000


def test_receivers_choose_no_groups() -> None:
    """All ciphers are offered as Python orders them, but for DHE, whose group may take a second."""
    ours, usual = tls_context(None), ssl.create_default_context()
    expected = [each["name"] for each in usual.get_ciphers() if not each["name"].startswith("DHE-")]
    assert [each["name"] for each in ours.get_ciphers()] == expected


def test_no_session_goes_from_one_name_to_another(tmp_path: Path) -> None:
    """Two names at one address and port shake hands in full, each, and then resume their own."""

    async def scenario(authority: Authority, port: int) -> None:
        pools = pools_for(str(authority.file))
        for host in ("a.example", "b.example", "a.example", "b.example"):
            assert await ask(pools, port, host=host) == [Outcome.SUCCESS]
        pools.close()

    assert resumed_of(tmp_path, scenario) == [False, False, True, True]


def test_no_session_goes_from_one_client_certificate_to_another(tmp_path: Path) -> None:
    """Neither from none to one, nor from one to its successor when it is renewed."""
    (tmp_path / "secrets").mkdir()
    pair = ("file:c.pem", "file:c.key")
    settings = Settings()

    def write(authority: Authority) -> None:
        for name, content in zip(("c.pem", "c.key"), authority.client(), strict=True):
            (tmp_path / "secrets" / name).write_bytes(content)

    async def scenario(authority: Authority, port: int) -> None:
        within = msgspec.structs.replace(settings.secrets, dir=str(tmp_path / "secrets"))
        own = msgspec.structs.replace(settings, secrets=within)
        write(authority)
        new_tls = partial(tls_context, str(authority.file))
        certificate = ClientCertificate(pair, own, new_tls)
        guard = Guard(["127.0.0.0/8"], lambda address: False)
        resolver = Resolver(guard, lambda host, port: ["127.0.0.1"])
        pools = Pools(Results(), resolver, new_tls(), certificate_of=lambda _: certificate)
        for each in (None, pair, None, pair):
            assert await ask(pools, port, pair=each) == [Outcome.SUCCESS]
        write(authority)
        certificate._looked_at = 0.0
        assert await ask(pools, port, 2, pair=pair) == [Outcome.SUCCESS] * 2
        pools.close()

    assert resumed_of(tmp_path, scenario) == [False, False, True, True, False, True]


def test_a_session_is_not_used_for_another_address(tmp_path: Path) -> None:
    """Where a name moves to another address, that one shows its certificate."""
    addresses = ["127.0.0.1"]

    async def scenario(authority: Authority, port: int) -> None:
        guard, clock = Guard(["127.0.0.0/8"], lambda address: False), count(0, 1_000)
        resolver = Resolver(guard, lambda host, port: list(addresses), lambda: next(clock))
        pools = Pools(Results(), resolver, tls_context(str(authority.file)))
        assert await ask(pools, port, 2, host="a.example") == [Outcome.SUCCESS] * 2
        addresses[:] = ["127.0.0.2"]
        assert await ask(pools, port, 2, host="a.example") == [Outcome.SUCCESS] * 2
        pools.close()

    assert resumed_of(tmp_path, scenario) == [False, True, False, True]


def test_resuming_does_not_put_off_the_next_full_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a session is renewed by resuming, the certificate is checked once its time is over."""
    now = [1_000.0]
    monkeypatch.setattr(tls_module, "monotonic", lambda: now[0])

    async def scenario(authority: Authority, port: int) -> None:
        pools = pools_for(str(authority.file))
        for _ in range(14):
            assert await ask(pools, port) == [Outcome.SUCCESS]
            now[0] += tls_module.RENEWED_SECONDS
        pools.close()

    assert resumed_of(tmp_path, scenario) == [False, *[True] * 11, False, True]


def test_no_session_outlives_the_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver whose certificate has expired since is refused, although its ticket is still good."""
    authority, receiver, now = Authority(tmp_path), Receiver(), [1_000.0]
    monkeypatch.setattr(tls_module, "monotonic", lambda: now[0])
    server_tls = authority.server(ends=timedelta(seconds=100))

    async def scenario() -> None:
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=server_tls) as server:
            pools, port = pools_for(str(authority.file)), server.sockets[0].getsockname()[1]
            await ask(pools, port, 2)
            now[0] += 101
            await ask(pools, port)
            pools.close()

    asyncio.run(scenario())
    assert receiver.resumed == [False, True, False]


def test_a_receiver_with_other_keys_is_verified(tmp_path: Path) -> None:
    """A session offered to who cannot go on with it leads to a full handshake, and so to the certificate's check."""
    authority, receiver = Authority(tmp_path), Receiver()

    async def scenario() -> list[Outcome]:
        outcomes, pools, port = [], pools_for(str(authority.file)), 0
        for self_signed in (False, True):
            secured = authority.server(self_signed=self_signed)
            server = await asyncio.start_server(receiver.serve, "127.0.0.1", port, ssl=secured)
            port = server.sockets[0].getsockname()[1]
            async with server:
                outcomes += await ask(pools, port, 2)
        pools.close()
        return outcomes

    assert asyncio.run(scenario()) == [Outcome.SUCCESS] * 2 + [Outcome.TLS_REFUSED] * 2
    assert receiver.resumed == [False, True]


def test_a_receiver_that_resumes_nothing_is_offered_less_and_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions that it does not go on with, then none for five minutes, then a single one again."""
    authority, receiver, now = Authority(tmp_path), Receiver(), [1_000.0]
    monkeypatch.setattr(tls_module, "monotonic", lambda: now[0])
    offered: list[bool] = []

    class Counting(Sessions):
        def of(self, address: str, context: ssl.SSLContext) -> KeptSession | None:
            offered.append((found := super().of(address, context)) is not None)
            return found

    async def with_new_keys(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(authority.server())
        await receiver.serve(reader, writer)

    async def scenario() -> None:
        async with await asyncio.start_server(with_new_keys, "127.0.0.1", 0) as server:
            pools, port = pools_for(str(authority.file)), server.sockets[0].getsockname()[1]
            pool = pools.of(parse_receiver_url(f"https://127.0.0.1:{port}/"))
            pool.sessions = Counting()
            first = await ask(pools, port, 6)
            now[0] += tls_module.RENEWED_SECONDS
            assert {*first, *await ask(pools, port, 4)} == {Outcome.SUCCESS}
            pools.close()

    asyncio.run(scenario())
    assert offered == [False, True, True, False, False, False, False, True, False, False]
    assert not any(receiver.resumed)


def test_the_sessions_of_an_origin_are_bounded() -> None:
    """A name with many addresses keeps the sessions of the last few."""

    context, keeps = ssl.create_default_context(), Sessions()
    addresses = [f"192.0.2.{number}" for number in range(3 * SESSIONS_MAX)]
    for address in addresses:
        keeps.note(address, _Answered(context), None)  # type: ignore[arg-type]
    assert [address for address in addresses if keeps.of(address, context)] == addresses[-SESSIONS_MAX:]
    assert keeps.of(addresses[-1], ssl.create_default_context()) is None


class _Answered:
    """A connection of TLS 1.3 that was answered on."""

    session_reused = False
    session = SimpleNamespace(has_ticket=True, ticket_lifetime_hint=300, timeout=7_200, id=b"")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def getpeercert(self) -> dict[str, str]:
        """Return as much of the certificate as is asked of it."""
        return {"notAfter": "Jan  5 09:34:43 2038 GMT"}
