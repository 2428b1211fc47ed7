"""Which URL a request went to, when only its number is known."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.connections.model import Destination
from hookline.outcomes.request_urls import RequestUrls
from tests.unit.control.running import record

TRACK = record("m", "A")


def urls(mapping: list[dict[str, Any]], **settings: Any) -> RequestUrls:
    """Of a destination of kind http."""
    fields = {"id": "api", "name": "API", "kind": "http", "settings": settings, "mapping": mapping}
    return RequestUrls(msgspec.convert(fields, Destination))


def test_the_number_counts_the_requests_of_the_event() -> None:
    """A request whose condition does not hold has no number; without the event nothing is guessed."""
    several = urls(
        [
            {"name": "page", "if": 'type = "page"', "url": "https://a.example/page"},
            {"name": "track", "if": 'type = "track"', "url": "https://a.example/t/{{userId}}"},
            {"name": "all", "url": "https://b.example/"},
        ]
    )
    assert [several.of(number, TRACK) for number in range(3)] == [
        "https://a.example/t/{userId}",
        "https://b.example/",
        "",
    ]
    assert several.of(0, None) == ""
    assert several.asks_event


def test_one_request_needs_no_event() -> None:
    """And of a URL that holds a secret only the origin is shown, also where it is a reference."""
    one = urls([{"name": "a", "url": "https://a.example/x"}])
    assert (one.of(0, None), one.asks_event) == ("https://a.example/x", False)
    secret = {"hookUrl": "https://hooks.example/T/secret", "key": "abc"}
    assert urls([{"name": "a", "url": "{{settings.secrets.hookUrl}}"}], secrets=secret).of(0, None) == (
        "https://hooks.example/…"
    )
    assert urls([{"name": "a", "url": "https://a.example/{{settings.secrets.key}}"}], secrets=secret).of(0, None) == (
        "https://a.example/…"
    )


def test_a_webhook_is_what_it_was() -> None:
    """The number is that of its URL."""
    fields = {"id": "c", "name": "C", "settings": {"webhooks": [{"url": "https://a.example/"}]}}
    webhook = RequestUrls(msgspec.convert(fields, Destination))
    assert (webhook.of(0, None), webhook.of(1, None), webhook.asks_event) == ("https://a.example/", "", False)


def sink(kind: str, **settings: Any) -> str:
    """What is shown of a destination whose kind makes no requests."""
    fields = {"id": "wh", "name": "W", "kind": kind, "settings": settings}
    return RequestUrls(msgspec.convert(fields, Destination)).of(0, None)


def test_a_sink_has_one_place_without_its_secrets() -> None:
    """Server and database, folder, or bucket; also where settings are missing that it needs."""
    server = {"host": "db.example", "database": "analytics", "user": "me", "password": "hidden"}
    assert sink("postgres", **server) == "postgres://db.example:5432/analytics"
    assert sink("postgres", **{**server, "host": "fd00::1", "port": 6432}) == "postgres://[fd00::1]:6432/analytics"
    assert sink("postgres") == "postgres:wh"
    assert sink("files", where="folder") == "files/wh"
    assert sink("files", where="folder", prefix="events/") == "files/wh/events"
    keys = {"where": "s3", "bucket": "acme", "accessKey": "a", "secretKey": "hidden"}
    assert sink("files", **keys, prefix="events") == "s3://acme/events"
    assert sink("files", **keys, endpoint="https://me:pw@s3.example:9000/") == "https://s3.example:9000/acme"
