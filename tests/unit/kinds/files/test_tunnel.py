"""The way of the S3 library out: to one host, at addresses that are allowed, for who knows the password."""

from __future__ import annotations

import base64
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hookline.kinds.files import bucket
from hookline.kinds.files.tunnel import Tunnel
from hookline.kinds.sink import SinkContext, SinkFailed
from tests.unit.kinds.files.place import context

NAME = "store.example"


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                with near:
                    while data := near.recv(1_000):
                        near.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


class Allowed(SinkContext):
    """Resolves the only name there is."""

    def addresses(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]


class Refused(SinkContext):
    """Refuses it."""

    def addresses(self, host: str, port: int) -> list[str]:
        raise SinkFailed("not allowed")


ALLOWED, REFUSED = (each(*context(Path("unused"))) for each in (Allowed, Refused))


def shown(tunnel: Tunnel, credentials: str | None) -> str:
    """Return the header line that shows the tunnel's credentials, or others."""
    parts = urlsplit(tunnel.url)
    given = f"{parts.username}:{parts.password}" if credentials is None else credentials
    return f"Proxy-Authorization: Basic {base64.b64encode(given.encode()).decode()}\r\n"


def requested(tunnel: Tunnel, target: str, credentials: str | None = None) -> bytes:
    """Send a request for a URL as a library does without TLS; return all that comes back."""
    host = urlsplit(target).netloc or NAME
    head = f"PUT {target} HTTP/1.1\r\nHost: {host}\r\n{shown(tunnel, credentials)}Connection: keep-alive\r\n\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(tunnel.url).port), 5) as connection:
        connection.sendall(head.encode() + b"hello")
        answer = connection.recv(1_000)
        while not answer.endswith((b"hello", b"\r\n\r\n")):
            answer += connection.recv(1_000)
        return answer


def asked(tunnel: Tunnel, target: str, credentials: str | None = None) -> bytes:
    """Ask for a connection and say something; return all that comes back."""
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{shown(tunnel, credentials)}\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(tunnel.url).port), 5) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(1_000)
        if b" 200 " in answer:
            connection.sendall(b"hello")
            answer += connection.recv(1_000)
        return answer


def test_it_leads_to_its_host(echo: int) -> None:
    """Asked for the host that it is for, with its password: bytes go there and come back."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=True)
    assert asked(tunnel, f"{NAME}:{echo}").endswith(b"hello")
    tunnel.close()


@pytest.mark.parametrize(
    ("target", "credentials"),
    [
        ("other.example:443", None),
        ("127.0.0.1:{port}", None),
        (NAME + ":{port}", "hookline:guess"),
        (NAME + ":1", None),
    ],
)
def test_it_leads_nowhere_else(echo: int, target: str, credentials: str | None) -> None:
    """Another host, another port or another password is refused."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=True)
    assert b" 403 " in asked(tunnel, target.format(port=echo), credentials)
    tunnel.close()


def test_nothing_that_is_sent_begins_the_count_anew(echo: int) -> None:
    """A host could have the library send something with TLS at any time; only the next call may be answered again."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=True)
    tunnel.allow(8)
    assert asked(tunnel, f"{NAME}:{echo}").endswith(b"hello")
    assert b" 200 " in asked(tunnel, f"{NAME}:{echo}")
    assert b" 403 " in asked(tunnel, f"{NAME}:{echo}")
    assert "answers more than the" in tunnel.refusal
    tunnel.allow(8)
    assert asked(tunnel, f"{NAME}:{echo}").endswith(b"hello")
    tunnel.close()


def test_an_address_that_is_not_allowed_is_not_connected(echo: int) -> None:
    """The guard's word is kept for whoever asks why."""
    tunnel = Tunnel(NAME, echo, REFUSED, is_tls=True)
    assert b" 502 " in asked(tunnel, f"{NAME}:{echo}")
    assert tunnel.refusal == "not allowed"
    tunnel.close()


def test_without_tls_a_request_goes_on_as_if_to_the_server(echo: int) -> None:
    """The host gets path, headers and body, nothing of the proxy, and no second request that nobody has looked at."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=False)
    target = f"http://{NAME}:{echo}/bucket/a?b=c"
    assert requested(tunnel, target) == (
        b"PUT /bucket/a?b=c HTTP/1.1\r\nhost: " + f"{NAME}:{echo}".encode() + b"\r\nconnection: close\r\n\r\nhello"
    )
    tunnel.close()


@pytest.mark.parametrize(
    ("target", "credentials"),
    [
        ("http://127.0.0.1:{port}/", None),
        ("http://store.example:{port}@127.0.0.1/", None),
        ("http://store.example:{port}.other.example/", None),
        ("/", None),
        ("http://store.example:{port}/", "hookline:guess"),
    ],
)
def test_without_tls_it_leads_nowhere_else(echo: int, target: str, credentials: str | None) -> None:
    """Where a redirect leads to, say, is refused."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=False)
    assert b" 403 " in requested(tunnel, target.format(port=echo), credentials)
    tunnel.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    """A process that has more files open than ``select`` can wait for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for each in held:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_leads_there_beside_thousands_of_open_files(many_files: None, echo: int) -> None:
    """A deliver role with many receivers holds more than 1,024 connections; files go on to be written."""
    tunnel = Tunnel(NAME, echo, ALLOWED, is_tls=True)
    assert asked(tunnel, f"{NAME}:{echo}").endswith(b"hello")
    tunnel.close()


def test_it_ends_with_a_store_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try would leave a thread and a socket otherwise."""
    opened: list[Tunnel] = []

    class Noted(Tunnel):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            opened.append(self)

    def refused(*_: object) -> None:
        raise ValueError("no certificate")

    monkeypatch.setattr(bucket, "Tunnel", Noted)
    monkeypatch.setattr(bucket, "_new_store", refused)
    settings = {"bucket": "lake", "region": "us-east-1", "endpoint": "https://127.0.0.1", "pathStyle": True}
    with pytest.raises(ValueError, match="no certificate"):
        bucket.BucketStore(context(tmp_path), settings)
    assert [tunnel.is_closed for tunnel in opened] == [True]
