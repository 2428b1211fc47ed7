"""TLS: only a certificate that is valid for the host gets a request; everything else gets none."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from tests.service.deliver.certificates import DAY, Authority
from tests.service.deliver.hostile import Connection, HostileReceiver, answering
from tests.service.deliver.per_case import TIMEOUT_SECONDS, Cases, service_per_case

TAKING = answering("HTTP/1.1 200 OK\nContent-Length: 0")
GOOD = ("address", "name")
BAD = {
    "expired": "expired",
    "notyet": "not yet valid",
    "selfsigned": "self-signed",
    "wronghost": "mismatch",
    "wrongaddress": "mismatch",
    "strangeca": "local issuer",
    "oldtls": "PROTOCOL_VERSION",
    "wantscertificate": "CERTIFICATE_REQUIRED",
    "plain": "WRONG_VERSION_NUMBER",
}
"""What is wrong with a receiver, and what the attempt's error must say of it."""


def contexts(authority: Authority, strange: Authority) -> dict[str, ssl.SSLContext]:
    """The server context of each case."""
    old = authority.server()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is out of date is the point
        old.minimum_version = ssl.TLSVersion.TLSv1_1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    mutual = authority.server()
    mutual.verify_mode = ssl.CERT_REQUIRED
    mutual.load_verify_locations(authority.file)
    return {
        "address": authority.server("127.0.0.1"),
        "name": authority.server("localhost"),
        "expired": authority.server(begins=-2 * DAY, ends=-timedelta(hours=1)),
        "notyet": authority.server(begins=timedelta(hours=1)),
        "selfsigned": authority.server(self_signed=True),
        "wronghost": authority.server("other.example"),
        "wrongaddress": authority.server("127.0.0.2"),
        "strangeca": strange.server(),
        "oldtls": old,
        "wantscertificate": mutual,
    }


def plain_http(connection: Connection) -> None:
    """Answer whatever comes, a TLS hello included, as a server without TLS does."""
    connection.raw.recv(65_536)
    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(scope="module")
def names_asked() -> list[str | None]:
    """The server names (SNI) that clients of the case ``name`` asked for."""
    return []


@pytest.fixture(scope="module")
def hellos() -> list[bytes]:
    """What the servers that do not speak TLS were told first."""
    return []


@pytest.fixture(scope="module")
def receivers(
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
    names_asked: list[str | None],
    hellos: list[bytes],
) -> Iterator[dict[str, HostileReceiver]]:
    """A TLS receiver per case, and one that speaks plain HTTP where TLS is expected."""
    found = contexts(authority, Authority(tmp_path_factory.mktemp("strange"), "Strange Authority"))
    found["name"].sni_callback = lambda _socket, name, _context: names_asked.append(name)
    with ExitStack() as stack:
        made = {name: stack.enter_context(HostileReceiver(TAKING, tls=tls)) for name, tls in found.items()}

        def hang(connection: Connection) -> None:
            hellos.append(connection.raw.recv(65_536))
            connection.wait_closed()

        made["plain"] = stack.enter_context(HostileReceiver(plain_http))
        made["hang"] = stack.enter_context(HostileReceiver(hang))
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the service trusts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cases(
    tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, HostileReceiver], authority: Authority
) -> Iterator[Cases]:
    """One service with all of them."""
    urls = {name: [receiver.url()] for name, receiver in receivers.items()}
    urls["name"] = [receivers["name"].url(host="localhost")]
    for name in ("plain", "hang"):
        urls[name] = [receivers[name].url().replace("http:", "https:")]
    settings = {"deliver.ca_file": str(authority.file)}
    with service_per_case(tmp_path_factory.mktemp("tls"), urls, settings) as running:
        yield running


@pytest.mark.parametrize("name", GOOD)
def test_a_valid_certificate_is_accepted(name: str, cases: Cases, receivers: dict[str, HostileReceiver]) -> None:
    """A host name or address that the trusted authority certified gets the event, on a kept connection."""
    ids: list[str] = []
    for _ in range(2):
        ids.append(cases.send(name))
        part = cases.hookline.wait_status(ids[-1], name, "delivered")
        assert [attempt["outcome"] for attempt in part["attempts"]] == ["success"]
    assert [receivers[name].connections_of(message_id) for message_id in ids] == [[1], [1]]


def test_the_server_name_is_the_urls_host(cases: Cases, names_asked: list[str | None]) -> None:
    """The checked address is connected to, but TLS asks for and verifies the name (SNI)."""
    cases.hookline.wait_status(cases.send("name"), "name", "delivered")
    assert set(names_asked) == {"localhost"}


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_certificate_gets_no_request(name: str, cases: Cases, receivers: dict[str, HostileReceiver]) -> None:
    """The attempt is refused with a reason before anything is sent, and tried again later."""
    message_id = cases.send(name)
    attempts = cases.wait_attempts(name, message_id, 2)
    assert (attempts[0]["outcome"], attempts[0]["httpStatus"]) == ("tls_refused", None)
    assert BAD[name] in attempts[0]["error"]
    assert receivers[name].connections >= 2
    assert receivers[name].requests == []


def test_a_server_that_hangs_in_the_handshake_times_out(
    cases: Cases, receivers: dict[str, HostileReceiver], hellos: list[bytes]
) -> None:
    """The handshake is part of the exchange's time, and nothing but TLS is ever said to an https URL."""
    attempts = cases.wait_attempts("hang", cases.send("hang"), 2)
    assert attempts[0]["outcome"] == "timed_out"
    assert attempts[0]["milliseconds"] >= 1_000 * TIMEOUT_SECONDS - 10
    assert all(hello.startswith(b"\x16\x03") for hello in hellos)
