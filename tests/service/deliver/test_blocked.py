"""Addresses that are not public: refused in every spelling, by configuration or by status, and never connected to."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.service.deliver.hostile import HostileReceiver, never_answer
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.harness import free_port, webhook

HOSTS = {
    "loopback": "127.0.0.1",
    "loopback2": "127.1.2.3",
    "unspecified": "0.0.0.0",
    "localhost": "localhost",
    "localhostdot": "LOCALHOST.",
    "v6loopback": "[::1]",
    "v6unspecified": "[::]",
    "v6long": "[0:0:0:0:0:0:0:1]",
    "mapped": "[::ffff:127.0.0.1]",
    "mappedhex": "[::FFFF:7F00:1]",
    "compatible": "[::127.0.0.1]",
    "translated": "[::ffff:0:127.0.0.1]",
    "nat64": "[64:ff9b::7f00:1]",
    "sixtofour": "[2002:7f00:1::]",
    "private": "10.0.0.1",
    "metadata": "169.254.169.254",
    "metadatav6": "[fd00:ec2::254]",
    "metadataname": "metadata.google.internal",
    "linklocal": "[fe80::1]",
    "broadcast": "255.255.255.255",
}
"""Spellings that may be configured (they have one meaning) and must be refused when an event is due."""

DISGUISED = [
    *("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "127.0.0.1."),
    *("127.00.0.1", "256.0.0.1", "0", "0x0", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460.0.0.1"),
    *(
        "user@127.0.0.1",
        "example.com@127.0.0.1",
        "example.com\\@127.0.0.1",
        "[fe80::1%25lo]",
        "[::1%lo]",
        "127.0.0.1%2f",
    ),
    *("example.com#@127.0.0.1", "127.0.0.1#example.com", "127.0.0.1\t", "127.0.0.1\n", " 127.0.0.1", "127.0.0.1\x00"),
]
"""Spellings that two programs could read differently: they cannot be configured at all."""


@pytest.fixture(scope="module")
def canary() -> Iterator[HostileReceiver]:
    """A listener on every address of this machine that no test may reach."""
    host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    with HostileReceiver(never_answer, host=host, port=free_port()) as listening:
        yield listening


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, canary: HostileReceiver) -> Iterator[Cases]:
    """A service without exceptions whose destinations all lead to the canary."""
    urls = {name: [canary.url(host=host)] for name, host in HOSTS.items()}
    urls["own"] = [canary.url(host=_own_address())]
    with service_per_case(tmp_path_factory.mktemp("blocked"), urls, {"deliver.allow_networks": []}) as running:
        yield running


@pytest.mark.parametrize("name", [*HOSTS, "own"])
def test_an_event_for_a_blocked_address_fails_without_a_connection(
    name: str, cases: Cases, canary: HostileReceiver
) -> None:
    """Status failed, one attempt with outcome blocked_address and a reason, and the canary heard nothing."""
    part = cases.hookline.wait_status(cases.send(name), name, "failed")
    (attempt,) = part["attempts"]
    assert (attempt["outcome"], attempt["httpStatus"], attempt["nextAt"]) == ("blocked_address", None, None)
    assert "deliver.allow_networks" in attempt["error"]
    assert canary.connections == 0


@pytest.mark.parametrize("host", DISGUISED)
def test_a_disguised_address_cannot_be_configured(host: str, cases: Cases, canary: HostileReceiver) -> None:
    """The admin API answers with a problem that points at the URL."""
    destination = webhook("disguised", f"http://{host}:{canary.port}/hook", sources=["loopback"])
    answer = cases.hookline.api("POST", "destinations", destination)
    assert answer.status in (400, 422), answer
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert "url" in answer.body.decode().lower()
    assert cases.hookline.api("GET", "destinations/disguised").status == 404


def test_an_exception_opens_exactly_its_network(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With 127.0.0.2/32 allowed that address gets its event, and 127.0.0.1 on the same port does not."""
    with HostileReceiver(never_answer, host="0.0.0.0", port=free_port()) as receiver:
        urls = {"open": [receiver.url(host="127.0.0.2")], "shut": [receiver.url(host="127.0.0.1")]}
        settings = {"deliver.allow_networks": ["127.0.0.2/32"]}
        with service_per_case(tmp_path_factory.mktemp("exception"), urls, settings) as cases:
            cases.hookline.wait_status(cases.send("shut"), "shut", "failed")
            assert receiver.connections == 0
            attempts = cases.wait_attempts("open", cases.send("open"))
            assert attempts[0]["outcome"] == "timed_out"
            assert receiver.connections >= 1


def _own_address() -> str:
    """An address of this machine beside loopback, as the route outwards has it; 127.0.0.9 when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.9"
