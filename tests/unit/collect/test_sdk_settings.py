"""What SDKs fetch before they send: the least that works, and nobody but this server to talk to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from hookline.collect.http.downloads import base_url
from hookline.settings import Collect, Settings
from tests.unit.collect.wire import DISABLED_KEY, KEY, SNAPSHOT, Running, basic

CONFIG = {
    "source": {
        "id": "web",
        "name": "web",
        "enabled": True,
        "config": {"statsCollection": {"errors": {"enabled": False}, "metrics": {"enabled": False}}},
        "destinations": [],
    }
}


@pytest.mark.parametrize("path", ["/v1/projects/wk_web/settings", "/projects/wk_web/settings"])
def test_settings_name_this_server(edge: Running, path: str) -> None:
    """Events go to the host that was asked, without a scheme, and usage counters nowhere."""
    answer = edge.get(path)
    assert answer.json == {
        "integrations": {"Segment.io": {"apiKey": KEY, "apiHost": "localhost/v1", "protocol": "http"}},
        "plan": {},
        "metrics": {"sampleRate": 0, "host": "localhost/v1", "protocol": "http"},
    }
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("folder", "maker"), [("customerio", "Customer.io Data Pipelines"), ("june", "june.so"), ("", "Segment.io")]
)
def test_settings_name_the_maker_that_the_address_names(edge: Running, folder: str, maker: str) -> None:
    """SDKs that descend from Segment's look for their own maker's name, and would post there without it."""
    settings = edge.get(f"//{folder}/v1/projects/wk_web/settings").json
    assert settings["integrations"] == {maker: {"apiKey": KEY, "apiHost": "localhost/v1", "protocol": "http"}}
    assert settings["metrics"]["sampleRate"] == 0


@pytest.mark.parametrize(
    ("public_url", "host", "base"),
    [
        ("https://events.shop.example", b"10.0.0.1:8080", "https://events.shop.example"),
        ("https://shop.example/events/", b"x", "https://shop.example/events"),
        (None, b"shop.example:8080", "http://shop.example:8080"),
        (None, b"[::1]:8080", "http://[::1]:8080"),
        (None, b"shop.example", "http://shop.example"),
        (None, b"", "http://127.0.0.1:8080"),
        (None, b"shop.example:", "http://127.0.0.1:8080"),
        (None, b"shop.example;evil.example", "http://127.0.0.1:8080"),
        (None, b"shop'example", "http://127.0.0.1:8080"),
        (None, b"-shop.example", "http://127.0.0.1:8080"),
        (None, b"x" * 300, "http://127.0.0.1:8080"),
    ],
)
def test_the_address_is_the_one_that_sdks_reach(public_url: str | None, host: bytes, base: str) -> None:
    """The public address where there is one, else the Host that was asked, else the one listened on."""
    assert base_url(Settings(collect=Collect(public_url=public_url)), host) == base


def test_a_path_of_the_public_address_is_kept(start: Callable[..., Running]) -> None:
    """Behind a proxy that gives Hookline a folder, apiHost has it too."""
    public = Settings(collect=Collect(public_url="https://shop.example/events"))
    segment = start(settings=public).get("/v1/projects/wk_web/settings").json["integrations"]["Segment.io"]
    assert (segment["apiHost"], segment["protocol"]) == ("shop.example/events/v1", "https")


def test_settings_that_name_the_host_asked_are_kept_by_nobody_else(
    edge: Running, start: Callable[..., Running]
) -> None:
    """A shared cache may keep what names the public address, never what repeats somebody's Host."""
    assert edge.get("/v1/projects/wk_web/settings").headers["cache-control"] == "private, max-age=120"
    public = start(settings=Settings(collect=Collect(public_url="https://shop.example")))
    assert public.get("/v1/projects/wk_web/settings").headers["cache-control"] == "public, max-age=120"


def test_source_config_has_what_rudder_needs(edge: Running) -> None:
    """The key in the query or as Basic user; id, config and destinations are there, and nothing is reported."""
    assert edge.get("/sourceConfig/?p=npm&v=3.34.1&build=modern&writeKey=wk_web").json == CONFIG
    assert edge.get("/sourceConfig?p=android&v=2", Authorization=basic(KEY + ":")).json == CONFIG


PATHS = ("/v1/projects/{}/settings", "/projects/{}/settings/", "/sourceConfig/?writeKey={}")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("key", "code"), [("nobody", "unknown_write_key"), (DISABLED_KEY, "source_disabled")])
def test_keys_that_are_not_good_are_401(edge: Running, path: str, key: str, code: str) -> None:
    """In JSON that a page's script may read."""
    answer = edge.get(path.format(key))
    assert (answer.status, edge.reason(answer)) == (401, code)
    assert answer.headers["access-control-allow-origin"] == "*"


def test_source_config_without_a_key_is_401(edge: Running) -> None:
    """No key and a bad header alike."""
    assert edge.get("/sourceConfig/").code == "missing_write_key"
    assert edge.get("/sourceConfig/", Authorization="Basic !").code == "unknown_write_key"


@pytest.mark.parametrize("path", [each.format(KEY) for each in PATHS])
def test_only_get_is_taken(edge: Running, path: str) -> None:
    """POST is 405, and a preflight is let through before any key is looked at, with the headers SDKs send."""
    answer = edge.post(path, {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    preflight = edge.get(path.replace(KEY, "nobody"), "OPTIONS", Origin="https://shop.example")
    assert preflight.status == 204
    assert {"authorization", "content-type"} <= set(preflight.headers["access-control-allow-headers"].split(", "))
    assert "GET" in preflight.headers["access-control-allow-methods"]


@pytest.mark.parametrize("path", [each.format(KEY) for each in PATHS])
def test_settings_that_are_held_are_not_sent_again(edge: Running, path: str) -> None:
    """They carry an ETag and say how long they are good for."""
    first = edge.get(path)
    assert "max-age=120" in first.headers["cache-control"] or "no-cache" in first.headers["cache-control"]
    again = edge.get(path, If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_a_source_that_is_disabled_gets_no_settings_any_more(start: Callable[..., Running]) -> None:
    """The next request is judged by the new snapshot; before the first one it is 503."""
    edge = start(snapshot=None)
    assert edge.get("/v1/projects/wk_web/settings").code == "not_ready"
    edge.call(edge.edge.set_snapshot, SNAPSHOT)
    assert edge.get("/v1/projects/wk_web/settings").status == 200
    off = tuple(msgspec.structs.replace(source, enabled=False) for source in SNAPSHOT.sources)
    edge.call(edge.edge.set_snapshot, msgspec.structs.replace(SNAPSHOT, sources=off))
    assert edge.get("/v1/projects/wk_web/settings").code == "source_disabled"
