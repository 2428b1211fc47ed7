"""Paths are matched exactly, browsers are let in, and a write key is found wherever SDKs put it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hookline.connections.model import Snapshot, Source
from tests.unit.collect.wire import DISABLED_KEY, KEY, OTHER_KEY, SNAPSHOT, TRACK, Answer, Running, basic, request

EVENT = {**TRACK, "groupId": "g1", "previousId": "p1"}


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("type_", ["identify", "track", "page", "screen", "group", "alias"])
def test_long_and_short_paths(edge: Running, type_: str, slash: str) -> None:
    """Each type has a long and a one-letter path, a trailing slash is tolerated, and the path decides the type."""
    for path in (f"/v1/{type_}{slash}", f"/v1/{type_[0]}{slash}"):
        answer = edge.post(path, {**EVENT, "type": "identify"})
        assert (answer.status, answer.json) == (200, {"success": True, "messageId": "m1"})
    assert [record.type for record in edge.memory.records] == [type_, type_]


@pytest.mark.parametrize("path", ["/v1/batch", "/v1/b", "/v1/import", "/v1/import/", "/beacon/v1/batch"])
def test_batch_paths(edge: Running, path: str) -> None:
    """Batches come on three paths, and on the one of RudderStack's beacon."""
    answer = edge.post(path, {"batch": [{**EVENT, "type": "page"}]})
    assert answer.json == {"success": True, "accepted": 1, "rejected": []}


@pytest.mark.parametrize("path", ["//v1/batch", "/v1//batch", "///v1///batch//", "//sdk/batch"])
def test_repeated_slashes_are_one(edge: Running, path: str) -> None:
    """A host that was given with a slash at its end leads where it is meant to."""
    assert edge.post(path, {"batch": [{**EVENT, "type": "page"}]}).json["accepted"] == 1


@pytest.mark.parametrize("type_", ["identify", "track", "page", "screen", "group", "alias"])
@pytest.mark.parametrize("folder", ["/sdk", "/api/s", "/api/s/s2s"])
def test_paths_of_june_and_jitsu(edge: Running, folder: str, type_: str) -> None:
    """Their SDKs' paths take the calls that /v1 takes."""
    assert edge.post(f"{folder}/{type_}", EVENT).json == {"success": True, "messageId": "m1"}
    assert [record.type for record in edge.memory.records] == [type_]


@pytest.mark.parametrize("path", ["/sdk/batch", "/sdk/b"])
def test_batch_paths_of_june(edge: Running, path: str) -> None:
    """June's SDK for Node posts to the one, its browser SDK where it batches to the other."""
    assert edge.post(path, {"batch": [{**EVENT, "type": "page"}]}).json["accepted"] == 1
    assert edge.post("/sdk/m", {"series": []}, key=None).json == {"success": True}


def test_telemetry_is_accepted_and_dropped(edge: Running) -> None:
    """SDKs' usage counters are answered 200, without a key, and not stored."""
    answer = edge.post("/v1/m", {"series": []}, key=None)
    assert (answer.status, answer.json["success"]) == (200, True)
    assert edge.memory.records == []


NO_PATHS = [
    "/",
    "/v1",
    "/v1/",
    "/v1/./batch",
    "/v1/x/../batch",
    "/v1/%62atch",
    "/v1/batch%00",
]
NO_PATHS += ["/v1/batch;x=1", "/v1/Batch", "/V1/batch", "/v1/batch#x", "/..%2fv1/batch", "/v1/delete"]
NO_PATHS += ["/v2/batch", "/healthz/x", "/metrics", "/api/v1/sources", "/v1/pixel", "/v1/pixel/t", "/pixel/v1/group"]
NO_PATHS += ["/beacon/v1/track", "/v1/projects//settings", "/v1/projects/settings", "/projects/wk_web/Settings"]
NO_PATHS += ["/analytics.js/v1/wk_web/analytics.js", "/analytics.js/v1/analytics.min.js", "/sourceconfig"]
NO_PATHS += [
    "/analytics-next/bundles/",
    "/analytics-next/bundles/standalone.js",
    "/analytics-next/bundles/../LICENSE.MD",
]


@pytest.mark.parametrize("path", NO_PATHS)
def test_no_other_spelling_is_a_path(edge: Running, path: str) -> None:
    """Anything but the exact spelling is 404 in JSON."""
    answer = edge.post(path, {"batch": [{**EVENT, "type": "page"}]})
    assert (answer.status, edge.reason(answer)) == (404, "not_found")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_other_methods_are_405(edge: Running, method: str) -> None:
    """A wrong method is 405 and Allow names the right ones."""
    head = f"{method} /v1/batch HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    answer = edge.ask(head)
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")
    assert edge.post("/healthz", {}).headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("origin", ["https://shop.example", "null"])
def test_preflight_needs_no_key(edge: Running, origin: str) -> None:
    """OPTIONS is answered before any look at a key and allows every header that SDKs send, and that tracing in pages
    adds to whatever they send."""
    answer = edge.ask(
        f"OPTIONS /v1/t HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAuthorization: {basic('wrong')}\r\n"
        "Access-Control-Request-Method: POST\r\n\r\n".encode()
    )
    assert 200 <= answer.status < 300
    assert answer.headers["access-control-allow-origin"] == "*"
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "x-retry-count", "anonymousid", "sentat"} <= set(allowed)
    assert {"x-write-key", "x-enable-debug", "x-ip-policy"} <= set(allowed)
    assert {"traceparent", "tracestate", "baggage", "sentry-trace", "x-datadog-trace-id"} <= set(allowed)
    assert int(answer.headers["access-control-max-age"]) >= 600
    assert "access-control-allow-credentials" not in answer.headers


def test_calls_may_be_read_by_any_origin(edge: Running) -> None:
    """Good and bad answers of collection paths expose Retry-After to scripts; probes and 404 say nothing."""
    for answer in (edge.post("/v1/t", TRACK), edge.post("/v1/t", {}), edge.post("/v1/t", {}, key="wrong")):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "Retry-After"
    probe = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for path in (b"/healthz", b"/readyz", b"/nowhere"):
        assert "access-control-allow-origin" not in edge.ask(probe % path).headers


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
)
def test_the_content_type_does_not_matter(edge: Running, content_type: str) -> None:
    """SDKs label JSON as anything; it is read as JSON all the same."""
    assert edge.post("/v1/t", TRACK, Content_Type=content_type).status == 200


def _batch(**fields: object) -> dict[str, object]:
    return {"batch": [{**TRACK, "type": "track"}], **fields}


def _keyed(edge: Running, where: str) -> Answer:
    event = {**TRACK, "type": "track", "writeKey": KEY}
    match where:
        case "basic with colon":
            return edge.post("/v1/t", TRACK, key=None, Authorization=basic(KEY + ":"))
        case "basic without colon":
            return edge.post("/v1/t", TRACK, key=None, Authorization=basic(KEY))
        case "basic with password":
            return edge.post("/v1/t", TRACK, key=None, authorization=basic(KEY + ":pw"))
        case "lower-case scheme":
            return edge.post("/v1/t", TRACK, key=None, Authorization=basic(KEY + ":").replace("Basic", "basic"))
        case "event":
            return edge.post("/v1/t", event, key=None)
        case "envelope":
            return edge.post("/v1/b", _batch(writeKey=KEY), key=None)
        case "first event of a batch":
            return edge.post("/v1/b", {"batch": [event]}, key=None)
        case "query":
            return edge.post(f"/v1/t?a=1&writeKey={KEY}", TRACK, key=None)
        case "query of a batch":
            return edge.post(f"/v1/b?writeKey={KEY.replace('_', '%5f')}", _batch(), key=None)
        case "header over body":
            return edge.post("/v1/t", {**event, "writeKey": OTHER_KEY}, key=KEY)
        case "body over query":
            return edge.post(f"/v1/t?writeKey={OTHER_KEY}", event, key=None)
        case "envelope over event":
            return edge.post("/v1/b", {"batch": [{**event, "writeKey": OTHER_KEY}], "writeKey": KEY}, key=None)
        case "Jitsu's header":
            return edge.post("/api/s/track", {**event, "writeKey": f"{KEY}:***"}, key=None, X_Write_Key=f"{KEY}:secret")
        case "Jitsu's header without a secret":
            return edge.post("/api/s/s2s/track", event, key=None, X_Write_Key=KEY)
        case "Jitsu's header beside an empty basic user":
            return edge.post("/api/s/track", TRACK, key=None, X_Write_Key=KEY, Authorization=basic(":"))
        case "body with a secret":
            return edge.post("/v1/t", {**event, "writeKey": f"{KEY}:***"}, key=None)
        case "query with a secret":
            return edge.post(f"/api/s/track?writeKey={KEY}:secret", TRACK, key=None)
        case "bearer and body":
            return edge.post("/v1/t", event, key=None, Authorization="Bearer abc")
    return edge.post("/v1/t", event, key=None, Authorization=basic(":"))


WHERE = ["basic with colon", "basic without colon", "basic with password", "lower-case scheme", "event", "envelope"]
WHERE += ["first event of a batch", "query", "query of a batch", "header over body", "body over query"]
WHERE += ["Jitsu's header", "Jitsu's header without a secret", "Jitsu's header beside an empty basic user"]
WHERE += ["body with a secret", "query with a secret", "envelope over event", "bearer and body"]
WHERE += ["empty basic user and body"]


@pytest.mark.parametrize("where", WHERE)
def test_the_write_key_is_found(edge: Running, where: str) -> None:
    """The key counts from the header, else the body (batch, then event), else the query."""
    assert _keyed(edge, where).status == 200
    assert [record.source for record in edge.memory.records] == ["web"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_write_key"),
        ({"Authorization": "Bearer abc"}, "missing_write_key"),
        ({"Authorization": basic("nobody:")}, "unknown_write_key"),
        ({"Authorization": basic(f" {KEY}:")}, "unknown_write_key"),
        ({"Authorization": basic(KEY.upper() + ":")}, "unknown_write_key"),
        ({"Authorization": "Basic !!!"}, "unknown_write_key"),
        ({"Authorization": "Basic /w=="}, "unknown_write_key"),
        ({"Authorization": basic("k" * 10_000)}, "unknown_write_key"),
        ({"Authorization": basic(DISABLED_KEY + ":")}, "source_disabled"),
        ({"X_Write_Key": "nobody:secret"}, "unknown_write_key"),
        ({"X_Write_Key": ":secret"}, "unknown_write_key"),
        ({"X_Write_Key": f"{DISABLED_KEY}:secret"}, "source_disabled"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/t", "/v1/b"])
def test_without_a_good_key_it_is_401(edge: Running, path: str, headers: dict[str, str], code: str) -> None:
    """Missing, unknown and disabled keys are 401 on every path and nothing is stored."""
    answer = edge.post(path, TRACK if path == "/v1/t" else _batch(), key=None, **headers)
    assert (answer.status, edge.reason(answer)) == (401, code)
    assert edge.memory.records == []


@pytest.mark.parametrize("key", [7, None, "", {"a": 1}, "nobody"])
def test_a_bad_key_in_the_body_is_401(edge: Running, key: object) -> None:
    """A key of a wrong type or an unknown one in body or envelope is 401, not a fault."""
    assert edge.post("/v1/t", {**TRACK, "writeKey": key}, key=None).status == 401
    assert edge.post("/v1/b", _batch(writeKey=key), key=None).status == 401


@pytest.mark.parametrize("headers", [{"Authorization": basic("nobody:")}, {"Authorization": basic(DISABLED_KEY + ":")}])
def test_other_keys_are_503_while_the_known_ones_may_be_old(edge: Running, headers: dict[str, str]) -> None:
    """A key that is not among those last read may be in force by now; one that is goes on, and no key is none."""
    edge.call(edge.edge.doubt, True)
    answer = edge.post("/v1/t", TRACK, key=None, **headers)
    assert (answer.status, edge.reason(answer)) == (503, "connections_unread")
    assert "retry-after" in answer.headers
    assert edge.post("/v1/t", TRACK).status == 200
    assert edge.post("/v1/t", TRACK, key=None).status == 401
    edge.call(edge.edge.doubt, False)
    assert edge.post("/v1/t", TRACK, key=None, **headers).status == 401


def test_nothing_is_taken_while_nobody_knows_who_is_suppressed(start: Callable[..., Running]) -> None:
    """503 to valid keys, also in a head that was met before, until that can be told again; a new snapshot changes
    nothing about it."""
    edge = start()
    wire = edge.wire()
    assert wire.send(request("/v1/t", TRACK)).answer().status == 200
    edge.call(edge.edge.stand_by, True)
    edge.call(edge.edge.set_snapshot, SNAPSHOT)
    assert wire.send(request("/v1/t", TRACK)).answer().code == "not_ready"
    assert not edge.edge.ready
    edge.call(edge.edge.stand_by, False)
    assert wire.send(request("/v1/t", TRACK)).answer().status == 200


def test_a_new_snapshot_counts_at_once(start: Callable[..., Running]) -> None:
    """Keys come and go with the snapshot, also on a connection that is open."""
    edge = start()
    wire = edge.wire()
    assert wire.send(request("/v1/t", TRACK, key="wk_new")).answer().status == 401
    edge.call(
        edge.edge.set_snapshot, Snapshot(version=2, sources=(Source(id="new", name="New", write_keys=("wk_new",)),))
    )
    assert wire.send(request("/v1/t", TRACK, key="wk_new")).answer().status == 200
    assert wire.send(request("/v1/t", TRACK)).answer().code == "unknown_write_key"
    edge.call(edge.edge.set_snapshot, SNAPSHOT)
    assert wire.send(request("/v1/t", TRACK)).answer().status == 200
