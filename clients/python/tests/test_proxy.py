"""Which proxy the environment names for an endpoint, and what of it is no proxy for this library."""

from __future__ import annotations

import base64

import pytest

from hookline_client.endpoint import parse_endpoint
from hookline_client.http_transport import HttpTransport
from hookline_client.proxy import Proxy, proxy_to
from scripted_service import ScriptedService

PROXY = "http://127.0.0.1:3128"
HOST = "hooks.example.com"


def between(endpoint: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Proxy | None:
    """The proxy of an environment that has these variables."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return proxy_to(parse_endpoint(endpoint, True))


@pytest.mark.parametrize(
    ("endpoint", "environment", "expected"),
    [
        (f"https://{HOST}", {"HTTPS_PROXY": PROXY}, ("127.0.0.1", 3128)),
        (f"https://{HOST}", {"https_proxy": "proxy.example.com"}, ("proxy.example.com", 80)),
        (f"http://{HOST}", {"http_proxy": "http://[2001:db8::1]:8080/"}, ("2001:db8::1", 8080)),
        (f"https://{HOST}", {"HTTP_PROXY": PROXY}, None),
        (f"http://{HOST}", {"HTTPS_PROXY": PROXY}, None),
        (f"https://{HOST}", {"HTTPS_PROXY": ""}, None),
        (f"https://{HOST}", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a.test, example.com"}, None),
        (f"https://{HOST}:8443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "hooks.example.com:8443"}, None),
        (f"https://{HOST}", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        (f"https://{HOST}", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ample.com"}, ("127.0.0.1", 3128)),
        ("http://localhost:8080", {"HTTP_PROXY": PROXY}, None),
        ("http://127.0.0.2:8080", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:8080", {"HTTP_PROXY": PROXY}, None),
    ],
)
def test_the_environment_names_it(
    endpoint: str, environment: dict[str, str], expected: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the endpoint's scheme, unless the host is listed or is this machine."""
    assert between(endpoint, environment, monkeypatch) == (None if expected is None else (*expected, {}))


def test_what_a_web_server_sets_from_a_header_is_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a CGI program ``HTTP_PROXY`` is the header ``Proxy`` of whoever calls."""
    environment = {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}
    assert between(f"http://{HOST}", environment, monkeypatch) is None


def test_its_password_goes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escaped in the address, as a URL has it."""
    proxy = between(f"https://{HOST}", {"HTTPS_PROXY": "http://me:p%40ss@127.0.0.1:3128"}, monkeypatch)
    assert proxy is not None
    assert proxy.headers == {"Proxy-Authorization": "Basic " + base64.b64encode(b"me:p@ss").decode()}


@pytest.mark.parametrize("value", ["socks5://me:hidden@127.0.0.1:1080", "https://127.0.0.1", "http://a:b:c", "http://"])
def test_a_proxy_of_another_kind_is_said(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes around it, and its password is not shown."""
    monkeypatch.setenv("HTTPS_PROXY", value)
    answer = HttpTransport("wk", parse_endpoint(f"https://{HOST}", True), 1.0).send([("a", b"{}")])
    assert (answer.code, answer.retryable) == ("connection_failed", True)
    assert "HTTPS_PROXY" in answer.reason
    assert "hidden" not in answer.reason


def test_a_request_without_tls_names_its_address(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy looks the host up, not this machine."""
    monkeypatch.setenv("http_proxy", f"http://me:word@127.0.0.1:{service.port}")
    transport = HttpTransport("wk", parse_endpoint("http://nowhere.invalid/hooks", True), 10.0)
    assert [transport.send([("a", b'{"messageId":"a"}')]).status for _ in range(2)] == [200, 200]
    first, second = service.posts
    assert first.path == "http://nowhere.invalid:80/hooks/v1/batch"
    assert first.headers["proxy-authorization"].startswith("Basic ")
    assert first.connection == second.connection
