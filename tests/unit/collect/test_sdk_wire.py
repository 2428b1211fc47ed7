"""What was measured of the SDKs on the wire, row by row: sections 0 (the collector), 1 (their requests), 2 (their
retries and limits) and 3 (what they fetch). Where another test proves a row, it is named here.

0.1 success is 200              test_success_is_200_with_an_object
0.2 every answer is an object   test_success_is_200_with_an_object, test_an_error_has_what_sdks_look_for
0.3 error body                  test_an_error_has_what_sdks_look_for
0.4 content types               test_paths_and_keys.test_the_content_type_does_not_matter, test_the_request_of_an_sdk
0.5 preflight                   test_preflights_everywhere, test_paths_and_keys.test_preflight_needs_no_key
0.6 Retry-After is exposed      test_pushing_back_says_for_how_long
0.7 gzip on every path          test_bodies.test_gzip_is_taken_on_every_path, test_the_request_of_an_sdk
0.8 paths                       test_paths_and_keys.test_long_and_short_paths, test_paths_and_keys.test_batch_paths,
                                test_paths_and_keys.test_telemetry_is_accepted_and_dropped
0.9 where the key is            test_paths_and_keys.test_the_write_key_is_found
0.10 envelope                   test_batches.test_the_envelope_reaches_every_event,
                                test_batches.test_the_event_goes_before_the_envelope
0.11 originalTimestamp          test_events.test_timestamps_of_sdks, test_the_request_of_an_sdk
0.12 forms of timestamps        test_events.test_timestamps_of_sdks, test_the_request_of_an_sdk
0.13 null ids                   test_events.test_what_is_missing_is_named, test_the_request_of_an_sdk
0.14 statuses                   test_statuses_mean_to_sdks_what_they_should
0.15 resent ids                 test_events.test_the_fingerprint_tells_sources_apart; tests/service/collect
1.1 to 1.16                     test_the_request_of_an_sdk
2.1 to 2.11                     test_the_largest_batch_of_an_sdk, test_statuses_mean_to_sdks_what_they_should,
                                test_events_that_come_hours_late
3.1 settings                    test_sdk_settings.test_settings_name_this_server
3.2 bundles                     test_sdk_files.test_what_is_held_is_not_sent_again
3.3 usage counters              test_sdk_settings.test_settings_name_this_server
3.4 the snippet's script        test_sdk_files.test_only_the_hosts_differ
3.5 sourceConfig                test_sdk_settings.test_source_config_has_what_rudder_needs
3.6 mobile settings             test_sdk_settings.test_settings_name_this_server
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from datetime import datetime

import pytest

from hookline.collect.http.answers import BY_CODE, ERRORS
from hookline.collect.http.router import ROUTES
from hookline.journal.port import JournalFull
from tests.unit.collect.sdk_requests import SDKS
from tests.unit.collect.wire import KEY, TRACK, Running, request

CALLS = sorted(path.decode() for path, route in ROUTES.items() if route.collects)
EVENT = {**TRACK, "type": "track", "groupId": "g1", "previousId": "p1", "batch": [{**TRACK, "type": "track"}]}
ROWS = {0: 15, 1: 16, 2: 11, 3: 6}


def test_every_row_is_accounted_for() -> None:
    """The table above has all rows, and each test that it names is there."""
    table = (__doc__ or "").split("\n\n", 1)[1]
    rows = re.findall(r"^(\d)\.(\d+)(?: to \d\.(\d+))?", table, re.MULTILINE)
    told = [(int(section), row) for section, first, last in rows for row in range(int(first), int(last or first) + 1)]
    assert told == [(section, row) for section, count in ROWS.items() for row in range(1, count + 1)]
    assert {name.split()[0] for name in SDKS} == {f"1.{row}" for row in range(1, ROWS[1] + 1)}
    for module, name in re.findall(r"(?:(test_\w+)\.)?(test_\w+)", table):
        found = importlib.import_module(f"tests.unit.collect.{module or 'test_sdk_wire'}")
        assert hasattr(found, name), name


@pytest.mark.parametrize("path", CALLS)
def test_success_is_200_with_an_object(edge: Running, path: str) -> None:
    """PHP sends again at once on 201, Ruby on an empty body: exactly 200, and an object that says success."""
    answer = edge.post(path, EVENT)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["success"] is True


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_has_what_sdks_look_for(code: str) -> None:
    """code and message at the top for RudderStack's Python, error for Ruby; without its own, each sends again."""
    head, _, body = BY_CODE[code].partition(b"\r\n\r\n")
    said = json.loads(body)
    assert said.keys() == {"success", "code", "message", "error"}
    assert said["success"] is False
    assert said["error"] == {"code": said["code"], "message": said["message"]}
    assert b"Content-Type: application/json\r\n" in head


@pytest.mark.parametrize("path", CALLS)
def test_preflights_everywhere(edge: Running, path: str) -> None:
    """analytics-next asks before every path, RudderStack's with headers of its own; without a yes no event comes."""
    answer = edge.get(path, "OPTIONS", Origin="https://shop.example", Access_Control_Request_Method="POST")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "*")
    allowed = set(answer.headers["access-control-allow-headers"].split(", "))
    assert allowed >= {"authorization", "content-type", "x-retry-count", "anonymousid", "sentat"}


@pytest.mark.parametrize("name", SDKS)
def test_the_request_of_an_sdk(edge: Running, name: str) -> None:
    """Each is accepted as it is written: every event under its own id and user, with its time and its bytes."""
    sdk = SDKS[name]
    answer = edge.ask(sdk.data())
    assert (answer.status, answer.json["success"], answer.json.get("rejected", [])) == (200, True, [])
    sent = json.loads(sdk.body) if isinstance(sdk.body, bytes) else sdk.body
    assert isinstance(sent, dict)
    events = sent.get("batch", [sent])
    records = edge.memory.records
    assert [record.message_id for record in records] == [event["messageId"] for event in events]
    for record, event in zip(records, events, strict=True):
        assert (record.source, record.type, record.rejection) == ("web", event["type"], None)
        assert record.user_key == (event["userId"] or event["anonymousId"])
        assert json.loads(record.body) == event
        assert record.selection is None
        assert abs(record.received_at - _ms(record.timestamp) - sdk.late_ms) <= 1


@pytest.mark.parametrize(
    ("row", "events", "batch_bytes"),
    [
        ("2.1 segment python", 100, 475_000),
        ("2.3 segment node", 15, 480_000),
        ("2.4 analytics-node, rudder node", 20, 450 * 1024),
        ("2.5 php", 100, 511_999),
        ("2.6 go 2", 250, 500_000),
        ("2.7 go 3", 250, 500_000),
        ("2.8 ruby", 100, 479_232),
        ("2.10 analytics-next", 18, 450 * 1024),
        ("2.11 swift, kotlin, react native", 1_000, 475_000),
    ],
)
def test_the_largest_batch_of_an_sdk(edge: Running, row: str, events: int, batch_bytes: int) -> None:
    """What an SDK thinks small enough to send is taken whole."""
    item = {**TRACK, "type": "track", "properties": {"pad": ""}}
    frame = len(json.dumps({"batch": [item] * events}))
    pads = [(batch_bytes - frame) // events] * events
    pads[0] += (batch_bytes - frame) % events
    body = json.dumps({"batch": [{**item, "properties": {"pad": "x" * pad}} for pad in pads]}).encode()
    assert len(body) == batch_bytes
    assert edge.post("/v1/batch", body).json["accepted"] == events, row


def test_statuses_mean_to_sdks_what_they_should() -> None:
    """A mistake is a 4xx that nobody repeats; what passes is 5xx that everybody does, and says when."""
    repeated_4xx, never_repeated_5xx = {408, 410, 429, 460}, {501, 505, 511}
    for code, (status, _) in ERRORS.items():
        assert status >= 400
        if code in ("request_timeout", "rate_limited"):  # to be repeated: the network's doing, or too early
            assert status in repeated_4xx
        elif code == "http_version_not_supported":  # no SDK speaks it
            assert status in never_repeated_5xx
        else:
            assert status not in repeated_4xx | never_repeated_5xx, code
        wait = re.search(rb"\r\nRetry-After: (\d+)\r\n", BY_CODE[code])
        assert (wait is not None) is (status in (429, 503))
        assert wait is None or 1 <= int(wait[1]) <= 300


def test_pushing_back_says_for_how_long(start: Callable[..., Running]) -> None:
    """A browser can read Retry-After only where it is exposed to it."""
    edge = start()
    edge.memory.error = JournalFull()
    answer = edge.post("/v1/t", TRACK)
    assert (answer.status, answer.code) == (503, "journal_full")
    assert answer.headers["access-control-expose-headers"] == "Retry-After"
    assert 1 <= int(answer.headers["retry-after"]) <= 300


def test_events_that_come_hours_late(edge: Running) -> None:
    """Phones keep events for hours, and PHP 3 writes times of 1970: both are taken, each with its own time."""
    for timestamp in ("2014-01-02T03:04:05.678Z", "1970-01-01T00:33:34.000Z"):
        assert edge.ask(request("/v1/t", {**TRACK, "timestamp": timestamp}, KEY)).status == 200
        assert edge.memory.records[-1].timestamp == timestamp


def _ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)
