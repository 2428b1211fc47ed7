"""Rate limits in the living service: set by the environment and on a source, refused, counted, and lifted again."""

from __future__ import annotations

from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, wait_until, webhook

EVENT = {"userId": "u", "event": "E"}


def test_a_sources_limit_is_in_force_soon_and_counted(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """What comes above it is 429 with Retry-After and reaches nobody; lifted, the same call is delivered once."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    hookline.api("PATCH", "sources/site", {"rateLimit": {"events": 0.01, "burst": "5m"}})
    wait_until(lambda: hookline.post("/v1/track", EVENT).status == 429)
    refused = hookline.post("/v1/track", {**EVENT, "messageId": "later"})
    assert (refused.status, refused.json["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) > 1
    wait_until(lambda: hookline.metric("hookline_collect_rate_limited_total") >= 2)
    hookline.api("PATCH", "sources/site", {"rateLimit": None})
    wait_until(lambda: hookline.post("/v1/track", {**EVENT, "messageId": "later"}).status == 200)
    hookline.wait_status("later", "crm", "delivered")


def test_the_setting_limits_every_source_and_address(new_hookline: Callable[..., Hookline]) -> None:
    """From the environment, as a deployment sets it."""
    limits = {
        "HOOKLINE_COLLECT_RATE_LIMIT": "events=1000,bytes=1MB",
        "HOOKLINE_COLLECT_RATE_LIMIT_PER_ADDRESS": '{"events": 0.01, "burst": "5m"}',
    }
    hookline = new_hookline(environment=limits).start()
    assert [hookline.post("/v1/track", EVENT).status for _ in range(4)] == [200, 200, 200, 429]
    wait_until(lambda: hookline.metric("hookline_collect_rate_limited_addresses_total") == 1)
