"""The way out through a proxy: everything that the sender sends leaves by HTTP CONNECT where ``deliver.proxy`` is set.

The guard's promises stay as they are. Names are resolved here, and the proxy is asked for the address that was checked,
never for a name: a second look-up, at the proxy, could lead elsewhere. What cannot be resolved here is not sent. The
proxy's own rules count after that. There is no way round it: while the proxy cannot be used, nothing leaves.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from base64 import b64encode
from io import FileIO
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from hookline.deliver.send.answers import END_OF_HEAD
from hookline.deliver.send.resolver import Guard, NameNotResolved, Resolver
from hookline.secret_references import SecretMissing, resolve_in
from hookline.settings import Settings

ANSWER_BYTES_MAX = 8 * 1024
"""Of the head of a proxy's answer."""
READ_BYTES = 4 * 1024
ANYWHERE = ("0.0.0.0/0", "::/0")
"""A proxy is the operator's own and mostly inside; the guard is for receivers."""

_NEXT_STEPS = {
    403: "its rules forbid this address; Hookline asks for the address that it has checked, not for a name",
    407: "give deliver.proxy its user and password",
    502: "it could not connect to the receiver",
    503: "it could not connect to the receiver",
    504: "it could not connect to the receiver in time",
}
"""What an answer of a proxy means and what to do."""
TRY_ANOTHER = frozenset((502, 503, 504))
"""Answers that speak of one address of the receiver."""
SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""What the system says when this machine has too little of something; no receiver is to blame, and no proxy."""


class ProxyFailed(OSError):
    """The proxy cannot be used, or did not connect; the sentence names it, never its credentials."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class ProxyAddress(NamedTuple):
    """Hold what ``deliver.proxy`` says."""

    host: str
    port: int
    authorization: bytes
    """The header line with its end; nothing without a user."""

    @property
    def name(self) -> str:
        """Return how people know it."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_proxy(text: str) -> ProxyAddress:
    """Read ``http://user:password@host:port``; raise ValueError that shows nothing of it."""
    form = "write http://user:password@proxy.example.com:3128, percent-encoded where necessary"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(form) from None
    if parts.scheme != "http" or not host or not port or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(form)
    line = b""
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        line = b"Proxy-Authorization: Basic %b\r\n" % b64encode(credentials)
    return ProxyAddress(host, port, line)


class Proxy:
    """Opens sockets through the proxy that a setting names."""

    def __init__(self, setting: str, secrets_dir: str | None, resolver: Resolver | None = None) -> None:
        self._setting = setting
        self._secrets_dir = secrets_dir
        self._resolver = resolver or Resolver(Guard(ANYWHERE))
        self._address: ProxyAddress | None = None

    def address(self) -> ProxyAddress:
        """Return where it is; raise ProxyFailed while what the setting refers to cannot be used."""
        if self._address is None:
            try:
                self._address = parse_proxy(resolve_in(self._setting, self._secrets_dir))
            except (SecretMissing, ValueError) as error:
                raise ProxyFailed(f"deliver.proxy: {error}; nothing is sent until then") from None
        return self._address

    async def connect(self, receiver: str, port: int, reserved: FileIO | None = None) -> tuple[str, socket.socket]:
        """Return the proxy's address, and a socket that leads through it to a receiver's; the caller bounds the time.

        Raise ProxyFailed, whose ``status`` is what the proxy answered; where this machine is short of something, what
        the system says.
        """
        proxy = self.address()
        try:
            own = (await self._resolver.resolve(proxy.host, proxy.port))[0]
            through = await connected(own, proxy.port, reserved)
        except NameNotResolved as error:
            raise ProxyFailed(f"the proxy's name is not resolved ({error}); see deliver.proxy") from None
        except OSError as error:
            if error.errno in SHORT:
                raise
            self._resolver.led_nowhere(proxy.host)
            reason = error.strerror or str(error)
            raise ProxyFailed(f"the proxy {proxy.name} does not take connections ({reason})") from None
        try:
            await _ask(through, proxy, receiver, port)
        except BaseException:
            through.close()
            raise
        return own, through


def proxy_of(settings: Settings) -> Proxy | None:
    """Return the proxy that everything leaves through, None where there is none."""
    setting = settings.deliver.proxy
    return Proxy(setting, settings.secrets.dir) if setting else None


def connected_through(settings: Settings, receiver: str, port: int, seconds: float) -> socket.socket:
    """Return a socket that leads through the proxy of the settings to a receiver's address, to a thread that waits for
    it; raise OSError."""

    async def connect() -> socket.socket:
        proxy = proxy_of(settings)  # what its resolver waits with is this event loop's
        assert proxy is not None
        async with asyncio.timeout(seconds):
            return (await proxy.connect(receiver, port))[1]

    try:
        return asyncio.run(connect())
    except TimeoutError:
        raise ProxyFailed(f"the proxy did not connect within {seconds:.0f} s; see deliver.proxy") from None


async def connected(address: str, port: int, reserved: FileIO | None = None) -> socket.socket:
    """Return a socket that is connected to a numeric address; the caller bounds the time.

    ``reserved`` holds a descriptor for it until then.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if reserved is not None:
        reserved.close()
    # The protocol, because asyncio sets TCP_NODELAY only where it is said.
    plain = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        plain.setblocking(False)
        error = plain.connect_ex((address, port))
        if error == errno.EINPROGRESS:
            await _writable(plain)
            error = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        plain.close()
        raise
    return plain


async def _writable(plain: socket.socket) -> None:
    """Wait until it has connected, or cannot. uvloop's ``sock_connect`` has each address looked up by a thread."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(plain, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(plain)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _ask(through: socket.socket, proxy: ProxyAddress, receiver: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    target = f"[{receiver}]:{port}" if ":" in receiver else f"{receiver}:{port}"
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode()
    answer = b""
    try:
        await loop.sock_sendall(through, head + proxy.authorization + b"\r\n")
        while (end := END_OF_HEAD.search(answer)) is None:
            piece = await loop.sock_recv(through, READ_BYTES)
            answer += piece
            if not piece or len(answer) > ANSWER_BYTES_MAX:
                raise ProxyFailed(f"the proxy {proxy.name} gave no answer in HTTP; does it speak CONNECT?")
    except ConnectionError as error:
        raise ProxyFailed(f"the proxy {proxy.name} closed the connection ({error.strerror})") from None
    status = answer[9:12]
    if answer[:7] != b"HTTP/1." or not status.isdigit():
        raise ProxyFailed(f"the proxy {proxy.name} gave no answer in HTTP; does it speak CONNECT?")
    if not status.startswith(b"2"):
        next_step = _NEXT_STEPS.get(int(status), "see its log")
        raise ProxyFailed(f"the proxy {proxy.name} answered {int(status)} for {target}: {next_step}", int(status))
    if end.end() != len(answer):  # neither a receiver of HTTP nor of TLS speaks first
        raise ProxyFailed(f"the proxy {proxy.name} sent more than its answer")
