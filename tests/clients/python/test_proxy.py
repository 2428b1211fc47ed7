"""A program that reaches the service through a proxy alone: Apache's forward proxy, with a password."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline_client import Client
from tests.service.deliver.certificates import Authority
from tests.service.fronts import Apache
from tests.service.harness import WRITE_KEY, Hookline, Receiver, webhook
from tests.service.waiting import wait_until

HERE = "0.0.0.0"
"""This machine, by an address that a proxy is asked for."""
USER, PASSWORD = "me", "a secret"


class ForwardProxy(Apache):
    """Apache httpd as the way out."""

    def configuration(self) -> str:
        """Return it: any port may be reached, by whoever has the password."""
        given = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return f"""
{self.process("mpm_event", "authz_core", "proxy", "proxy_http", "proxy_connect")}
CustomLog {self.folder}/requests "%r %>s"
ProxyRequests On
AllowCONNECT 1-65535
<Proxy "*">
    Require expr %{{HTTP:Proxy-Authorization}} == 'Basic {given}'
</Proxy>
"""

    def wait_for(self, request: str) -> None:
        """Wait until it has noted a request, which it does once that is over."""
        noted = self.folder / "requests"
        wait_until(lambda: request in noted.read_text(), what=request)


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    """The proxy that the environment names."""
    running = ForwardProxy(tmp_path, [])
    running.start()
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://{USER}:a%20secret@127.0.0.1:{running.port}")
    yield running
    running.stop()


def test_events_go_through_it(proxy: ForwardProxy, new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """They reach the service, and from there the receiver."""
    service = new_hookline(webhook("crm", receiver.url())).start()
    client = Client(WRITE_KEY, endpoint=f"http://{HERE}:{service.collect_port}")
    message_id = client.track("u1", "Order Completed")
    assert client.close().accepted == 1
    receiver.wait_for(str(message_id))
    proxy.wait_for(f"POST http://{HERE}:{service.collect_port}/v1/batch")


def test_over_tls_it_passes_on_what_it_cannot_read(proxy: ForwardProxy, tmp_path: Path) -> None:
    """The certificate is that of the service."""
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server(HERE)) as service:
        service.reply_with(200, body=b'{"success": true}')
        client = Client(WRITE_KEY, endpoint=f"https://{HERE}:{service.port}", ca_file=str(authority.file))
        client.track("u1", "Order Completed")
        client.track("u1", "Order Refunded")
        assert client.close().accepted == 2
    proxy.wait_for(f"CONNECT {HERE}:{service.port}")


def test_one_that_refuses_is_said(
    proxy: ForwardProxy, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its password nothing leaves, and the receipt says who answered what."""
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    client = Client(WRITE_KEY, endpoint=f"https://{HERE}:{receiver.port}", max_retries=0)
    client.track("u1", "Order Completed")
    (receipt,) = client.close().receipts
    assert receipt.code == "connection_failed"
    assert f"the proxy 127.0.0.1:{proxy.port} answered 403" in receipt.reason
    assert receiver.requests == []
