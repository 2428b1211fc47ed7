"""Rate limits: what a source or an address sends too much of is 429, whole, with the seconds until it is taken."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from hookline.connections.model import Snapshot
from hookline.rate_limit import RateLimit
from hookline.setting_values import Networks
from hookline.settings import Collect, Settings
from tests.unit.collect.wire import KEY, OTHER_KEY, SNAPSHOT, TRACK, Answer, Running, request, zipped

SLOW = RateLimit(events=0.1, burst=100)
"""Ten events at once, then one in ten seconds: no test takes so long."""


def _settings(**limits: object) -> Settings:
    return Settings(collect=msgspec.convert(limits, Collect))


def _limited(limit: RateLimit) -> Snapshot:
    web, *others = SNAPSHOT.sources
    return Snapshot(version=1, sources=(msgspec.structs.replace(web, rate_limit=limit), *others))


def _batch(edge: Running, events: int, key: str = KEY) -> Answer:
    return edge.post("/v1/batch", {"batch": [{**TRACK, "type": "track"}] * events}, key)


def test_a_source_past_its_events_is_429(start: Callable[..., Running]) -> None:
    """Ten events at once are taken, the next call is 429 with the seconds to wait, and nothing of it is stored."""
    edge = start(settings=_settings(rate_limit=SLOW))
    assert _batch(edge, 10).json["accepted"] == 10
    answer = edge.post("/v1/track", TRACK)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "rate_limited", "10")
    assert len(edge.memory.records) == 10
    assert edge.edge.counters.rate_limited == {"web": 1}
    edge.pass_seconds(11)
    assert edge.post("/v1/track", TRACK).status == 200


def test_a_batch_is_taken_whole_or_not_at_all(start: Callable[..., Running]) -> None:
    """A batch larger than what is left goes in whole, and is made up for before the next call is taken."""
    edge = start(settings=_settings(rate_limit=SLOW))
    assert _batch(edge, 40).json["accepted"] == 40
    answer = _batch(edge, 2)
    assert (answer.status, len(edge.memory.records)) == (429, 40)
    assert 300 <= int(answer.headers["retry-after"]) <= 310
    edge.pass_seconds(250)
    assert _batch(edge, 2).status == 429
    edge.pass_seconds(70)
    assert _batch(edge, 2).status == 200


def test_bytes_count_as_they_are_inflated(start: Callable[..., Running]) -> None:
    """What gzip hides counts, and a body that is no event counts too: refusing costs as much."""
    edge = start(settings=_settings(rate_limit=RateLimit(bytes=100, burst=200)))
    pad = {**TRACK, "properties": {"pad": "x" * 15_000}}
    for answer in (edge.post("/v1/track", zipped(pad), Content_Encoding="gzip"), edge.post("/v1/track", b"x" * 6_000)):
        assert answer.status in (200, 400)
    assert edge.post("/v1/track", TRACK).code == "rate_limited"


def test_sources_do_not_share_a_limit(start: Callable[..., Running]) -> None:
    """One that is limited takes nothing from another, wherever the write key stands."""
    edge = start(settings=_settings(rate_limit=SLOW))
    _batch(edge, 10)
    body = {**TRACK, "writeKey": KEY}
    assert edge.post("/v1/track", body, None).code == "rate_limited"
    assert edge.post("/v1/batch", {"batch": [], "writeKey": KEY}, None).code == "rate_limited"
    assert _batch(edge, 10, OTHER_KEY).status == 200


def test_a_source_has_a_limit_of_its_own(start: Callable[..., Running]) -> None:
    """What a source says counts before the setting, number by number."""
    edge = start(
        snapshot=_limited(RateLimit(events=0.1)), settings=_settings(rate_limit=RateLimit(events=1_000, burst=20))
    )
    assert _batch(edge, 2).status == 200
    assert _batch(edge, 2).status == 429
    assert [_batch(edge, 100, OTHER_KEY).status for _ in range(3)] == [200, 200, 200]


def test_a_change_elsewhere_fills_nobodys_bucket(start: Callable[..., Running]) -> None:
    """Other connections change all the time; a source whose limit is the same goes on where it was."""
    edge = start(snapshot=_limited(SLOW))
    assert (_batch(edge, 10).status, _batch(edge, 1).status) == (200, 429)
    edge.call(edge.edge.set_snapshot, _limited(SLOW))
    assert _batch(edge, 1).status == 429
    edge.call(edge.edge.set_snapshot, SNAPSHOT)
    assert _batch(edge, 1).status == 200


def test_addresses_are_limited_by_themselves(start: Callable[..., Running]) -> None:
    """One address past its events is 429 for every write key, known or not; another address is served."""
    edge = start(settings=_settings(rate_limit_per_address=SLOW))
    assert _batch(edge, 10).status == 200
    assert [edge.post("/v1/track", TRACK, key).code for key in (OTHER_KEY, "wk_unknown")] == ["rate_limited"] * 2
    assert edge.edge.counters.rate_limited_addresses == 2
    assert edge.wire("127.0.0.2").send(request("/v1/track", TRACK)).answer().status == 200


def test_guessing_write_keys_counts(start: Callable[..., Running]) -> None:
    """A call that is refused counts as one event of its address."""
    edge = start(settings=_settings(rate_limit_per_address=SLOW))
    assert [edge.post("/v1/track", {**TRACK, "writeKey": "wk_no"}, None).status for _ in range(10)] == [401] * 10
    assert edge.post("/v1/track", TRACK).code == "rate_limited"


@pytest.mark.parametrize(("proxies", "status"), [(("127.0.0.1/32",), 200), ((), 429)])
def test_behind_a_trusted_proxy_the_client_counts(
    start: Callable[..., Running], proxies: tuple[str, ...], status: int
) -> None:
    """What a trusted proxy says of its client is believed, and what anybody else says is not."""
    edge = start(settings=_settings(rate_limit_per_address=SLOW, trusted_proxies=Networks(proxies)))
    calls = [request("/v1/track", TRACK, X_Forwarded_For=f"203.0.113.{number % 2}") for number in range(12)]
    assert [edge.ask(call).status for call in calls] == [200] * 10 + [status] * 2


def test_ipv6_neighbours_are_one_address(start: Callable[..., Running]) -> None:
    """All addresses of a /64 count together: one household has them all."""
    settings = _settings(rate_limit_per_address=SLOW, trusted_proxies=Networks(("127.0.0.1/32",)))
    edge = start(settings=settings)
    calls = [request("/v1/track", TRACK, X_Forwarded_For=f"2001:db8::{number:x}") for number in range(1, 13)]
    assert [edge.ask(call).status for call in calls] == [200] * 10 + [429] * 2
    assert edge.ask(request("/v1/track", TRACK, X_Forwarded_For="2001:db8:0:1::1")).status == 200


def test_pixels_are_limited_too(start: Callable[..., Running]) -> None:
    """A picture comes all the same; its header says what is wrong."""
    edge = start(settings=_settings(rate_limit=SLOW))
    _batch(edge, 10)
    answer = edge.get(f"/v1/pixel/track?writeKey={KEY}&userId=u&event=e")
    assert (answer.status, answer.headers["x-hookline-error"]) == (200, "rate_limited")
    assert len(edge.memory.records) == 10


def test_without_limits_nothing_is_counted(edge: Running) -> None:
    """The hot path asks one question."""
    assert edge.edge._intake._limits is None
