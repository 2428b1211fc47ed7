"""One client per process, as PHP holds it, and the fixture for tests of programs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

import hookline_client
from hookline_client import Client, InvalidCall, InvalidOption, module
from hookline_client.testing import RecordingTransport


@pytest.fixture(autouse=True)
def _no_client() -> Iterator[None]:
    module.close(0.0)
    yield
    module.close(0.0)


def test_calls_go_to_the_client_of_init() -> None:
    """All six, with the options of one mapping, as PHP gives them."""
    transport = RecordingTransport()
    made = hookline_client.init("wk", {"transport": transport, "flush_at": 1000})
    assert hookline_client.client() is made
    hookline_client.identify({"userId": "u", "traits": {"plan": "pro"}})
    hookline_client.track({"userId": "u", "event": "E"})
    hookline_client.page({"userId": "u", "name": "Home"})
    hookline_client.screen({"userId": "u", "name": "Start"})
    hookline_client.group({"userId": "u", "groupId": "g"})
    hookline_client.alias({"userId": "u", "previousId": "a"})
    assert hookline_client.flush().accepted == 6
    assert [event["type"] for event in transport.events] == ["identify", "track", "page", "screen", "group", "alias"]


def test_init_is_once_per_process() -> None:
    """Again with the same arguments is nothing; with others it would silently send elsewhere, and is refused."""
    transport = RecordingTransport()
    first = hookline_client.init("wk", {"transport": transport})
    assert hookline_client.init("wk", transport=transport) is first
    with pytest.raises(InvalidOption):
        hookline_client.init("other", {"transport": transport})
    hookline_client.close()
    assert hookline_client.init("other", {"transport": transport}) is not first


@pytest.mark.parametrize("number", range(1, 9))
def test_a_signal_may_close_at_any_line(number: int) -> None:
    """Close at the line with this number of those that a call executes: ``init`` returns a client, and none raises."""
    left = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                module.close(0.0)
        return trace

    def init() -> Client:
        return hookline_client.init("wk", transport=transport)

    transport = RecordingTransport()
    for call in (lambda: hookline_client.track("u", "E"), hookline_client.flush, init):
        init()
        left = number
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            result = call()
        finally:
            sys.settrace(before)
    assert isinstance(result, Client)


def test_calls_before_init_are_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """No exception in production."""
    with caplog.at_level(logging.WARNING):
        assert hookline_client.track("u", "E") is None
        assert hookline_client.page("Home", user_id="u") is None
    assert "init" in caplog.text
    assert hookline_client.flush().ok
    assert hookline_client.close().ok


def test_the_fixture_records(hookline_events: RecordingTransport) -> None:
    """What pytest users write: no service, no waiting."""
    hookline_client.track("u", "Signed Up", {"plan": "pro"})
    assert [event["event"] for event in hookline_events.events] == ["Signed Up"]
    assert hookline_events.events[0]["properties"] == {"plan": "pro"}


def test_a_program_may_call_init_under_the_fixture(hookline_events: RecordingTransport) -> None:
    """An application's factory does; whatever it gives, the recorder stays."""
    hookline_client.init("wk_of_production", {"endpoint": "https://events.example.com"})
    hookline_client.track("u", "Signed Up")
    assert [event["event"] for event in hookline_events.events] == ["Signed Up"]


def test_the_fixture_records_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Who runs tests may have turned sending off."""
    monkeypatch.setenv("HOOKLINE_CLIENT_ENABLED", "false")
    monkeypatch.setenv("HOOKLINE_CLIENT_CONSUMER", "file")
    recorder: RecordingTransport = request.getfixturevalue("hookline_events")
    hookline_client.track("u", "Signed Up")
    assert len(recorder.events) == 1


def test_a_stand_in_leaves_the_client_there_is_alone() -> None:
    """Afterwards it is that of the process again, as it was made, also when the program closed the other."""
    own, other = RecordingTransport(), RecordingTransport()
    first = hookline_client.init("wk", {"transport": own})
    with module.stand_in(Client("test", transport=other)):
        hookline_client.track("u", "Tested")
        hookline_client.close()
    hookline_client.track("u", "Done")
    assert hookline_client.init("wk", {"transport": own}) is first
    hookline_client.flush()
    assert [event["event"] for event in own.events + other.events] == ["Done", "Tested"]


def test_the_fixture_raises_on_mistakes(hookline_events: RecordingTransport) -> None:
    """They would only be counted in production."""
    with pytest.raises(InvalidCall):
        hookline_client.track("u", "")
    assert hookline_events.events == []


def test_what_is_imported_late_is_there() -> None:
    """And nothing else is."""
    assert hookline_client.AsyncClient.__name__ == "AsyncClient"
    assert callable(hookline_client.flush_after)
    with pytest.raises(AttributeError):
        _ = hookline_client.nothing  # type: ignore[attr-defined]
