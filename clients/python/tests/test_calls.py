"""Calls of a client from end to end: fields, limits, hooks, defaults, and that none of them raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hookline_client import Client, InvalidCall, InvalidOption
from hookline_client.messages import MESSAGE_BYTES_MAX
from hookline_client.testing import RecordingTransport


def client_of(transport: RecordingTransport, **options: Any) -> Client:
    """A client whose calls are with the transport when they return."""
    return Client("wk", transport=transport, **{"debug": True, **options})


def test_calls_by_place_and_by_name() -> None:
    """The order of Segment's Python library, and names."""
    transport = RecordingTransport()
    client = client_of(transport)
    client.identify("u", {"plan": "pro"}, {"ip": "10.0.0.1"}, 0, "a", {"All": True}, "m1")
    client.track("u", "E", {"n": 1}, anonymous_id="a", message_id="m2")
    client.group("u", "g", {"size": 3})
    client.alias("p", "u")
    client.page("u", "Docs", "Home", {"url": "/"})
    client.screen(anonymous_id="a", name="Start")
    events = [{k: v for k, v in event.items() if k not in ("timestamp", "messageId")} for event in transport.events]
    context = events[1].pop("context")
    assert events[0].pop("context") == {**context, "ip": "10.0.0.1"}
    for event in events[2:]:
        assert event.pop("context") == context
    assert events == [
        {
            "type": "identify",
            "userId": "u",
            "anonymousId": "a",
            "traits": {"plan": "pro"},
            "integrations": {"All": True},
        },
        {"type": "track", "userId": "u", "anonymousId": "a", "event": "E", "properties": {"n": 1}},
        {"type": "group", "userId": "u", "groupId": "g", "traits": {"size": 3}},
        {"type": "alias", "userId": "u", "previousId": "p"},
        {"type": "page", "userId": "u", "category": "Docs", "name": "Home", "properties": {"url": "/"}},
        {"type": "screen", "anonymousId": "a", "name": "Start"},
    ]
    assert [event["messageId"] for event in transport.events[:2]] == ["m1", "m2"]
    assert transport.events[0]["timestamp"] == "1970-01-01T00:00:00.000Z"
    assert context["library"]["name"] == "hookline-python"


def test_a_name_given_beside_a_mapping_wins() -> None:
    """One field more than the mapping has."""
    transport = RecordingTransport()
    client_of(transport).track({"userId": "u", "event": "E"}, message_id="m", event="F")
    assert (transport.events[0]["messageId"], transport.events[0]["event"]) == ("m", "F")


def test_a_wrong_call_is_counted_and_told() -> None:
    """It returns None, and the handler learns why."""
    transport, errors = RecordingTransport(), []
    client = client_of(transport, error_handler=lambda code, message: errors.append((code, message)))
    assert client.track("u", "") is None
    assert client.page("u", "a", "b", "c") is None
    assert [code for code, _ in errors] == ["missing_event", "invalid_field"]
    assert client.stats.invalid == 2
    assert transport.batches == []


def test_a_wrong_call_raises_when_strict() -> None:
    """In tests mistakes are loud."""
    client = client_of(RecordingTransport(), strict=True)
    with pytest.raises(InvalidCall):
        client.track("u", "")


def test_an_event_may_have_32_kilobytes() -> None:
    """Of bytes, not of characters, encoded as it is sent."""
    transport, errors = RecordingTransport(), []
    client = client_of(transport, error_handler=lambda code, _: errors.append(code))
    client.track("u", "E", {"x": ""}, message_id="m")
    from hookline_client.encoding import encode

    room = MESSAGE_BYTES_MAX - len(encode(transport.events[0]))
    assert client.track("u", "E", {"x": "x" * room}, message_id="m") == "m"
    assert client.track("u", "E", {"x": "x" * (room + 1)}, message_id="m") is None
    assert client.track("u", "E", {"x": "é" * (room // 2 + 1)}, message_id="m") is None
    assert errors == ["event_too_large"] * 2


class Hostile(Mapping[str, Any]):
    """A mapping whose methods raise."""

    def __getitem__(self, key: str) -> Any:
        raise OSError("hostile")

    def __iter__(self) -> Iterator[str]:
        raise OSError("hostile")

    def __len__(self) -> int:
        return 1


def test_nothing_a_caller_gives_raises() -> None:
    """Not even values whose own methods do."""
    client = client_of(RecordingTransport())

    class Rude:
        def __eq__(self, other: object) -> bool:
            raise OSError("rude")

        __hash__ = None  # type: ignore[assignment]

    for value in (Hostile(), Rude(), {"x": Hostile()}, object(), {"x": float("nan")}):
        client.track("u", "E", value)  # type: ignore[arg-type]
        client.track(value, "E")
        client.track("u", "E", context=value)  # type: ignore[arg-type]
        client.page(value, value)
        client.track("u", "E", timestamp=value)


def test_an_error_that_cannot_be_shown_does_not_reach_the_caller() -> None:
    """Not even the text of what a value raised can be asked for."""

    class Unspeakable(OSError):
        def __repr__(self) -> str:
            raise OSError("unspeakable")

    class Hushed(Hostile):
        def __iter__(self) -> Iterator[str]:
            raise Unspeakable

    client = client_of(RecordingTransport())
    assert client.track("u", "E", Hushed()) is None
    assert client.stats.invalid == 1


def test_a_consumer_that_raises_does_not_reach_the_caller() -> None:
    """One of the program's own may be wrong."""

    class Wrong:
        def enqueue(self, message: object) -> bool:
            raise OSError("wrong")

        def flush(self, timeout: float) -> int:
            return 0

        def close(self, timeout: float) -> int:
            return 0

    client = Client("wk", consumer=lambda options, ledger: Wrong())  # type: ignore[arg-type, return-value]
    assert client.track("u", "E") is None
    client.close()


def test_defaults_lie_under_every_call() -> None:
    """Context and integrations, whatever one call does to its own."""
    transport = RecordingTransport()
    client = client_of(transport, default_context={"app": "shop"}, default_integrations={"All": False})
    client.track("u", "E", context={"app": "other"}, integrations={"CRM": True})
    client.track("u", "E")
    assert [event["context"]["app"] for event in transport.events] == ["other", "shop"]
    assert [event["integrations"] for event in transport.events] == [{"All": False, "CRM": True}, {"All": False}]


def test_integrations_in_the_default_context_count() -> None:
    """As they do in a call's own context, whether the call has one or not; an option of their own wins."""
    transport = RecordingTransport()
    default = {"integrations": {"All": False, "CRM": False}}
    client = client_of(transport, default_context=default, default_integrations={"CRM": True})
    client.track("u", "E")
    client.track("u", "E", context={"app": "shop"})
    assert [event["integrations"] for event in transport.events] == [{"All": False, "CRM": True}] * 2
    assert not any("integrations" in event["context"] for event in transport.events)


def test_before_send_changes_and_drops() -> None:
    """It sees what would be sent; what it changes is nobody else's."""
    transport, properties = RecordingTransport(), {"card": "4111"}

    def hook(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["event"] == "Secret":
            return None
        message["properties"].pop("card")
        message["context"]["seen"] = True
        return message

    client = client_of(transport, before_send=hook)
    assert client.track("u", "Secret", {}) is None
    message_id = client.track("u", "E", properties)
    assert properties == {"card": "4111"}
    assert transport.events[0]["properties"] == {}
    assert transport.events[0]["messageId"] == message_id
    assert client.stats.queued == 1


@pytest.mark.parametrize(("failure", "arrive"), [("drop", 0), ("pass", 1)])
def test_a_before_send_that_fails(failure: str, arrive: int) -> None:
    """Drops, because it may be there to take secrets out, or passes, as the option says."""
    transport, errors = RecordingTransport(), []
    client = client_of(
        transport,
        before_send=lambda message: message["missing"],
        before_send_failure=failure,
        error_handler=lambda code, _: errors.append(code),
    )
    message_id = client.track("u", "E")
    assert (len(transport.events), errors) == (arrive, ["before_send_failed"])
    result = client.flush()
    assert (result.accepted, result.dropped) == (arrive, 1 - arrive)
    assert (message_id is None, [receipt.code for receipt in result.receipts]) == (
        not arrive,
        ["before_send_failed"] * (1 - arrive),
    )


def test_before_send_may_return_a_new_message() -> None:
    """What it leaves out of the frame is put back."""
    transport = RecordingTransport()
    message_id = client_of(transport, before_send=lambda message: {"userId": "x", "event": "F"}).track("u", "E")
    assert transport.events[0]["messageId"] == message_id
    assert transport.events[0]["type"] == "track"


@pytest.mark.parametrize("spoilt", [None, 7, ""])
def test_before_send_cannot_take_the_message_id_away(spoilt: object) -> None:
    """Without one the service could not know a repeat."""
    transport = RecordingTransport()
    message_id = client_of(transport, before_send=lambda message: {**message, "messageId": spoilt}).track("u", "E")
    assert [event["messageId"] for event in transport.events] == [message_id]
    assert message_id


def test_an_empty_cell_is_no_user() -> None:
    """NaN, which tables have where nothing is, would make one user of everybody without an id."""
    client = client_of(RecordingTransport())
    assert client.track(float("nan"), "E") is None
    assert client.identify(anonymous_id=float("inf")) is None
    assert client.stats.invalid == 2


def test_a_client_that_is_not_enabled_checks_and_forgets() -> None:
    """Staging without events, and still with errors."""
    transport, errors = RecordingTransport(), []
    client = client_of(transport, enabled=False, error_handler=lambda code, _: errors.append(code))
    assert client.track("u", "E") is None
    client.track("u", "")
    assert errors == ["missing_event"]
    assert client.flush().ok
    assert transport.batches == []


def test_a_missing_key_raises_only_when_strict() -> None:
    """A production without its configuration runs on."""
    assert Client("").track("u", "E") is None
    with pytest.raises(InvalidOption):
        Client("", strict=True)


def test_what_a_caller_changes_later_is_not_sent() -> None:
    """An event is what it was when it was called."""
    transport, properties = RecordingTransport(), {"n": 1}
    client = Client("wk", transport=transport)
    client.track("u", "E", properties)
    properties["n"] = 2
    client.flush()
    assert transport.events[0]["properties"] == {"n": 1}


def test_on_success_gets_the_ids_and_receipts_all() -> None:
    """Per request, and per message when asked."""
    transport, seen = RecordingTransport(), []
    client = Client("wk", transport=transport, on_success=seen.extend, receipts=True)
    ids = [client.track("u", "E") for _ in range(3)]
    result = client.flush()
    assert seen == ids
    assert [(receipt.message_id, receipt.outcome) for receipt in result.receipts] == [(i, "accepted") for i in ids]
