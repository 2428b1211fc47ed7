"""Which Host headers are answered, and what every answer carries."""

from __future__ import annotations

import socket

import pytest

from hookline.api.gates import CONTENT_SECURITY_POLICY, HostNames
from hookline.settings import Control, Settings
from tests.unit.control.running import Running


def names(**control: str) -> HostNames:
    """The names of a server with these settings."""
    return HostNames(Settings(control=Control(**control)))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9", "LOCALHOST", "127.0.0.1:80", "[::1]:80", "[::1]", "localhost."]
)
def test_loopback_names_are_ours(host: str) -> None:
    """However a person on this machine writes it, with any port."""
    assert names().allows(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "localhost@evil.example"]
)
def test_other_names_are_not(host: str) -> None:
    """A name that an attacker can point at this machine is refused."""
    assert not names().allows(host)


def test_the_public_url_is_ours() -> None:
    """The host of control.public_url is allowed, in any case, and only it."""
    public = names(public_url="https://Hooks.Example.com/")
    assert public.allows("hooks.example.com")
    assert not public.allows("www.hooks.example.com")


def test_on_every_interface_any_address_is_ours() -> None:
    """Listening on all interfaces, a literal address is safe (rebinding needs a name), a name is not."""
    every = names(listen="0.0.0.0:8081")
    assert every.allows("192.168.1.5:8081")
    assert every.allows("[fe80::1]:8081")
    assert not every.allows("evil.example")


@pytest.mark.parametrize("path", ["/", "/login", "/api/v1/sources", "/api/openapi.json", "/metrics", "/static/live.js"])
def test_a_foreign_host_is_421_everywhere(asked: Running, path: str) -> None:
    """Every path but the probes is refused under another name, even with the token."""
    answer = asked.call("GET", path, headers={"Host": "evil.example"})
    assert (answer.status, answer.json["code"]) == (421, "unknown_host")


def test_probes_come_by_any_name(asked: Running) -> None:
    """Platforms probe by names of their own."""
    assert asked.call("GET", "/healthz", headers={"Host": "pod-7"}).status == 200
    assert asked.call("GET", "/readyz", headers={"Host": "pod-7"}).status == 200


def test_two_hosts_are_none(asked: Running) -> None:
    """A request with two Host headers never gets through by its second one."""
    with socket.create_connection(("127.0.0.1", asked.port), timeout=30) as connection:
        connection.sendall(b"GET /login HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(65_536).split()[1] in (b"400", b"421")


@pytest.mark.parametrize("path", ["/login", "/nope", "/api/v1/sources", "/static/tokens.css", "/healthz"])
def test_every_answer_is_fenced_in(asked: Running, path: str) -> None:
    """Policy, nosniff, framing and referrer headers are on pages, assets, API answers and errors alike."""
    headers = asked.call("GET", path, token=False).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert "server" not in headers
    assert ("immutable" in headers["cache-control"]) == path.startswith("/static/")


def test_the_policy_has_no_holes() -> None:
    """Nothing inline, nothing evaluated, nothing from elsewhere, nobody may frame it."""
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in CONTENT_SECURITY_POLICY
    for hole in ("unsafe", "http:", "https:", "*", "data:", "blob:"):
        assert hole not in CONTENT_SECURITY_POLICY
