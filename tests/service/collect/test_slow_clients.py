"""Clients that drip, which began with the service that the tests of this folder share."""

from __future__ import annotations

from tests.service.collect.conftest import Site


def test_slow_clients_are_closed(site: Site) -> None:
    """Headers get 10 s and a body 30 s however it drips; others are served all the while and afterwards."""
    headers, body = (client.wait() for client in site.slow_clients.each)
    assert headers.status in (408, None)
    assert body.status == 408
    assert 9 <= headers.seconds < 29 <= body.seconds
    assert site.hookline.track()
