"""The way out through an HTTP proxy: everything leaves through it, to addresses that were checked, or not at all."""

from __future__ import annotations

import asyncio
import base64
import errno
import socket
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import proxy as proxy_module
from hookline.deliver.send.connector import Dialer
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.pool import Exchanges, Pools
from hookline.deliver.send.proxy import Proxy, ProxyFailed, parse_proxy, proxy_of
from hookline.deliver.send.request import request_of
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver, Settings
from tests.service.deliver.certificates import Authority
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results
from tests.unit.deliver.test_resending import LOOPS, run
from tests.unit.deliver.test_tls import Receiver

CREDENTIALS = "hookline:secret-word"
REFUSALS = {
    407: "give deliver.proxy its user and password",
    403: "its rules forbid this address",
    502: "it could not connect to the receiver",
    418: "see its log",
}


class ConnectProxy:
    """Opens tunnels as HTTP proxies do, to who knows the password; notes who asked for what."""

    def __init__(self, refuse: Callable[[str], int | None] = lambda target: None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bytes_through = b""
        self._refuse = refuse

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split(" ")[1]
        given = head.partition("Proxy-Authorization: Basic ")[2].partition("\r\n")[0]
        self.asked.append((head.split(" ")[0], target))
        status = self._refuse(target)
        if status is None and base64.b64decode(given).decode() != CREDENTIALS:
            status = 407
        if status is not None:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
            writer.close()
            return
        host, _, port = target.rpartition(":")
        inner, out = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(self._pass(reader, out), self._pass(inner, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                self.bytes_through += data
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()


class Place:
    """A receiver behind a proxy, and what is needed to send to it."""

    def __init__(self, proxy: ConnectProxy, folder: Path, addresses: list[str] | None = None) -> None:
        self.proxy = proxy
        self.receiver = Receiver()
        self.authority = Authority(folder)
        self.addresses = addresses or ["127.0.0.1"]
        self.port = self.proxy_port = 0

    async def send(self, scheme: str = "http", host: str = "a.example", setting: str = "", via: str = "") -> Exchange:
        """Serve, and send one request through the proxy."""
        secured = self.authority.server(host) if scheme == "https" else None
        async with (
            await asyncio.start_server(self.receiver.serve, "127.0.0.1", 0, ssl=secured) as there,
            await asyncio.start_server(self.proxy.serve, "127.0.0.1", 0) as between,
        ):
            self.port, self.proxy_port = (each.sockets[0].getsockname()[1] for each in (there, between))
            setting = setting or f"http://{via or CREDENTIALS}@127.0.0.1:{self.proxy_port}"
            guard = Guard(["127.0.0.0/8"], lambda address: False)
            resolver = Resolver(guard, lambda host, port: list(self.addresses))
            exchanges = Exchanges(resolver, tls_context(str(self.authority.file)), 10.0, Proxy(setting, None))
            url = parse_receiver_url(f"{scheme}://{host}:{self.port}/")
            return await exchanges.send(url, request_of(url, {}, b"{}"))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_requests_leave_through_the_proxy_to_the_address_that_was_checked(
    scheme: str, loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """By CONNECT for both; never by name, so that the proxy looks nothing up; and over TLS it sees no content."""
    place = Place(proxy := ConnectProxy(), tmp_path)
    exchange = run(loop, place.send(scheme))
    assert (exchange.outcome, exchange.address, len(place.receiver.resumed)) == (Outcome.SUCCESS, "127.0.0.1", 1)
    assert proxy.asked == [("CONNECT", f"127.0.0.1:{place.port}")]
    assert (b"POST / HTTP/1.1" in proxy.bytes_through) is (scheme == "http")


@pytest.mark.parametrize("status", REFUSALS)
def test_what_a_proxy_refuses_is_told_with_its_name_and_without_its_password(status: int, tmp_path: Path) -> None:
    """The outcome is one that is tried again; the sentence says who refused and what to do."""
    place = Place(ConnectProxy(lambda target: status), tmp_path)
    exchange = asyncio.run(place.send())
    assert exchange.outcome is Outcome.CONNECTION_FAILED
    assert f"the proxy 127.0.0.1:{place.proxy_port} answered {status}" in (exchange.error or "")
    assert REFUSALS[status] in (exchange.error or "")
    assert "secret-word" not in (exchange.error or "")
    assert place.receiver.resumed == []


def test_a_wrong_password_is_a_407(tmp_path: Path) -> None:
    """The proxy's own check is the last word."""
    place = Place(ConnectProxy(), tmp_path)
    exchange = asyncio.run(place.send(via="hookline:wrong"))
    assert "answered 407" in (exchange.error or "")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("http://127.0.0.1:1", "the proxy 127.0.0.1:1 does not take connections"),
        ("http://no.such.name.invalid:3128", "the proxy's name is not resolved"),
        ("env:HOOKLINE_SECRET_NOT_SET", "deliver.proxy: "),
    ],
)
def test_without_the_proxy_nothing_leaves(setting: str, says: str, tmp_path: Path) -> None:
    """One that is away, unknown or whose secret is missing is never gone round."""
    place = Place(ConnectProxy(), tmp_path)
    exchange = asyncio.run(place.send(setting=setting))
    assert exchange.outcome is Outcome.CONNECTION_FAILED
    assert says in (exchange.error or "")
    assert place.receiver.resumed == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "gave no answer in HTTP"),
        (b"", "gave no answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4_000, "gave no answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "sent more than its answer"),
    ],
)
def test_what_is_no_proxy_is_no_way_out(answer: bytes, says: str, tmp_path: Path) -> None:
    """Whatever listens there: an answer is bounded, and what it sends is never taken for the receiver's."""

    class Odd(ConnectProxy):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

    exchange = asyncio.run(Place(Odd(), tmp_path).send())
    assert exchange.outcome is Outcome.CONNECTION_FAILED
    assert says in (exchange.error or "")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "inside.example"])
def test_the_guard_checks_before_the_proxy_is_asked(host: str) -> None:
    """A blocked address, or a name that leads to one, never reaches the proxy."""
    proxy = ConnectProxy()

    async def scenario() -> Exchange:
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as between:
            way = Proxy(f"http://{CREDENTIALS}@127.0.0.1:{between.sockets[0].getsockname()[1]}", None)
            resolver = Resolver(Guard(()), lambda host, port: ["10.0.0.5"])
            url = parse_receiver_url(f"http://{host}/")
            return await Exchanges(resolver, tls_context(None), 10.0, way).send(url, request_of(url, {}, b"{}"))

    assert asyncio.run(scenario()).outcome is Outcome.BLOCKED_ADDRESS
    assert proxy.asked == []


def test_a_name_that_is_not_resolved_here_is_not_left_to_the_proxy() -> None:
    """Nobody could check where it leads."""
    proxy = ConnectProxy()

    async def scenario() -> Exchange:
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as between:
            way = Proxy(f"http://{CREDENTIALS}@127.0.0.1:{between.sockets[0].getsockname()[1]}", None)
            url = parse_receiver_url("http://known.to.the.proxy.example/")
            exchanges = Exchanges(Resolver(Guard(()), lambda host, port: []), tls_context(None), 10.0, way)
            return await exchanges.send(url, request_of(url, {}, b"{}"))

    assert asyncio.run(scenario()).outcome is Outcome.NAME_NOT_RESOLVED
    assert proxy.asked == []


def test_another_address_is_asked_for_where_the_proxy_cannot_connect(tmp_path: Path) -> None:
    """The first of a name's addresses is dead: the proxy says so, and connects to the next."""
    proxy = ConnectProxy(lambda target: 502 if target.startswith("127.0.0.9") else None)
    place = Place(proxy, tmp_path, ["127.0.0.9", "127.0.0.1"])
    exchange = asyncio.run(place.send())
    assert exchange.outcome is Outcome.SUCCESS
    assert proxy.asked[-1] == ("CONNECT", f"127.0.0.1:{place.port}")


@pytest.mark.parametrize("short", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_what_this_machine_is_short_of_is_not_blamed_on_the_proxy(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few descriptors, or buffers, are said as they are: so requests wait, as they do without a proxy."""

    async def none(address: str, port: int, reserved: FileIO | None) -> socket.socket:
        raise OSError(short, "too few")

    monkeypatch.setattr(proxy_module, "connected", none)
    dialer = Dialer(Resolver(Guard(["192.0.2.0/24"])), proxy=Proxy("http://127.0.0.1:3128", None))
    with pytest.raises(OSError, match="too few") as raised:
        asyncio.run(dialer.dial("192.0.2.1", 443))
    assert (raised.value.errno, isinstance(raised.value, ProxyFailed)) == (short, False)


def test_connections_through_a_proxy_are_kept(tmp_path: Path) -> None:
    """Requests of one origin share a tunnel, as they share a connection without a proxy."""
    keeping = Receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    proxy = ConnectProxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(keeping.answer)
        except asyncio.IncompleteReadError:
            writer.close()

    async def scenario() -> None:
        async with (
            await asyncio.start_server(serve, "127.0.0.1", 0) as there,
            await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as between,
        ):
            way = Proxy(f"http://{CREDENTIALS}@127.0.0.1:{between.sockets[0].getsockname()[1]}", None)
            resolver = Resolver(Guard(["127.0.0.0/8"], lambda address: False))
            pools = Pools(Results(), resolver, tls_context(None), proxy=way)
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}/"))
            for _ in range(5):
                result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                pool.send(NO_TARGET, [(result, REQUEST)])
                assert await asyncio.wait_for(result, 30) is Outcome.SUCCESS
            pools.close()

    asyncio.run(scenario())
    assert len(proxy.asked) == 1


@pytest.mark.parametrize(
    "text",
    ["https://p:1", "http://p", "http://:1", "http://p:x", "http://p:1/path", "p:1", "http://u:secret-word@p:99999"],
)
def test_a_proxy_is_a_url_with_a_port(text: str) -> None:
    """What is written wrongly is refused with the form, and nothing of what was written."""
    with pytest.raises(ValueError, match=r"^write http://user:password@proxy\.example\.com:3128") as refused:
        parse_proxy(text)
    assert "secret-word" not in str(refused.value)


def test_credentials_are_percent_decoded() -> None:
    """A password may hold what separates the parts of a URL."""
    line = parse_proxy("http://user:p%40ss%3Aword@[2001:db8::1]:3128").authorization
    assert base64.b64decode(line.split()[-1]) == b"user:p@ss:word"
    assert parse_proxy("http://[2001:db8::1]:3128").name == "[2001:db8::1]:3128"
    assert proxy_of(Settings()) is None
    assert proxy_of(Settings(deliver=Deliver(proxy="http://p:1"))) is not None
