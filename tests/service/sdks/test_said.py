"""The measure itself: what these tests call the same, and what not."""

from __future__ import annotations

from tests.service.sdks.said import SAID, body_of, differences, milliseconds
from tests.service.sdks.wire import messages


def test_what_is_missing_added_or_changed_is_found() -> None:
    """At any depth, with true told from 1 and a missing key from null."""
    said = {"a": {"b": 1, "c": True, "d": None}, "e": [1, {"f": 2}]}
    got = {"a": {"b": 1.0, "c": 1}, "e": [1, {"f": 3}], "g": {}}
    assert differences(said, got) == {"a.c": "changed", "a.d": "missing", "e": "changed", "g": "added"}


def test_a_body_is_what_the_specification_has() -> None:
    """Without integrations, with an alias's two keys, and with the empty objects that a type always has."""
    alias = {"Previous ID": "anonymous-1", "User ID": "user-1", "context": {"ip": "203.0.113.9"}}
    assert body_of(SAID["alias"]) == {"version": 1, "type": "alias", **alias}
    track = {"type": "track", "userId": "u", "anonymousId": None, "event": "E"}
    assert body_of(track) == {"version": 1, "type": "track", "userId": "u", "event": "E", "properties": {}}


def test_times_are_read_to_the_millisecond() -> None:
    """Whatever their zone; what is finer is cut."""
    assert milliseconds("2026-11-19T07:00:00.123999+00:00") == milliseconds("2026-11-19T08:00:00.123+01:00")


def test_messages_are_read_as_they_come() -> None:
    """One after the other, with a length or in chunks; one that is not whole yet is not there yet."""
    one = b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    two = b'POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'
    assert [(message.path, message.json) for message in messages(one + two)] == [("/a", {}), ("/b", {"a": 1})]
    assert [message.path for message in messages(one + two[:-9])] == ["/a"]
