"""Timestamps in every form that SDKs write."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events import timestamps
from hookline.events.timestamps import MAX_MS, MIN_MS, iso, parse, resolve, resolve_all

SEVEN = 1_795_158_000_000  # 2026-11-20T07:00:00Z
RECEIVED = SEVEN + 60_000


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("2026-11-20T07:00:00Z", SEVEN),
        ("2026-11-20T07:00:00.123Z", SEVEN + 123),
        ("2026-11-20T07:00:00.1234+00:00", SEVEN + 123),
        ("2026-11-20T07:00:00.011385+00:00", SEVEN + 11),
        ("2026-11-20T07:00:00.123456789Z", SEVEN + 123),
        ("2026-11-20T07:00:00+0000", SEVEN),
        ("2026-11-20T09:00:00+0200", SEVEN),
        ("2026-11-20T09:00:00+02", SEVEN),
        ("2026-11-20T07:00:00", SEVEN),
        ("2026-11-20T07:00", SEVEN),
        ("2026-11-20 07:00:00.5", SEVEN + 500),
        ("2026-11-20 07:00:00 UTC", SEVEN),
        ("2026-11-20 07:00:00 +0000", SEVEN),
        ("2026-11-20T07:00:00.5z", SEVEN + 500),
        ("2026-11-20T06:59:60Z", SEVEN),
        (" 2026-11-20T07:00:00Z ", SEVEN),
        ("2026-11-20", SEVEN - 7 * 3_600_000),
        (SEVEN // 1000, SEVEN),
        (SEVEN / 1000 + 0.123, SEVEN + 123),
        (SEVEN + 123, SEVEN + 123),
        (str(SEVEN // 1000), SEVEN),
        (f"{SEVEN // 1000}.123", SEVEN + 123),
        (str(SEVEN + 123), SEVEN + 123),
        ("20261120", 20_261_120_000),
        ("1970-01-01T00:33:34+00:00", 2_014_000),
        (-1, -1000),
        (0, 0),
        ("0001-01-01T00:00:00Z", MIN_MS),
        ("9999-12-31T23:59:59.999999Z", MAX_MS),
        ("9999-12-31T23:59:60Z", MAX_MS),
    ],
)
def test_readable_forms(value: object, ms: int) -> None:
    """Each form that an SDK or a person writes is read to the millisecond."""
    assert parse(value) == ms


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", " ", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30", "0000-01-01T00:00:00Z", True, [], {}),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "10000-01-01T00:00:00Z"),
        *(math.nan, math.inf, -math.inf, 1e20, -1e20, 10**400, "9" * 400, "1e9", "\ud800" * 20, "0000-\udc00" * 3),
    ],
)
def test_unreadable_is_none(value: object) -> None:
    """What is no time, or lies outside the years 0001 to 9999, counts as not given."""
    assert parse(value) is None


@given(st.one_of(st.text(), st.integers(), st.floats(), st.from_regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.{0,12}")))
def test_parse_never_raises_and_stays_in_range(value: object) -> None:
    """Any text and any number give a time in range or None."""
    ms = parse(value)
    assert ms is None or MIN_MS <= ms <= MAX_MS


@given(st.integers(MIN_MS, MAX_MS))
def test_iso_and_parse_are_inverse(ms: int) -> None:
    """What is written is read back to the same millisecond."""
    assert parse(iso(ms)) == ms


@pytest.mark.parametrize(
    ("timestamp", "original", "sent_at", "expected", "is_unreadable"),
    [
        (None, None, None, RECEIVED, False),
        ("2026-11-20T07:00:00Z", None, None, SEVEN, False),
        (None, "2026-11-20T07:00:00Z", None, SEVEN, False),
        ("", "2026-11-20T07:00:00Z", None, SEVEN, False),
        ("2026-11-20T07:00:00Z", "1999-01-01", None, SEVEN, False),
        ("2026-11-20T07:00:00Z", "garbage", None, SEVEN, False),
        ("garbage", None, None, RECEIVED, True),
        ("garbage", None, "2026-11-20T07:00:00Z", RECEIVED, True),
        (None, None, "garbage", RECEIVED, True),
        (None, "", "", RECEIVED, False),
        ("2031-01-01T00:00:00Z", None, "2031-01-01T00:00:10Z", RECEIVED - 10_000, False),
        ("2026-11-20T07:00:00Z", None, "garbage", SEVEN, True),
        ("2026-11-20T07:00:00Z", None, "", SEVEN, False),
        ("1969-12-31T23:59:59Z", None, None, 0, False),
        ("1969-12-31T23:59:59Z", None, "garbage", 0, True),
        ("9999-12-31T23:59:59Z", None, "1970-01-01T00:00:00Z", MAX_MS, False),
    ],
)
def test_resolve(timestamp: object, original: object, sent_at: object, expected: int, is_unreadable: bool) -> None:
    """The first given time counts, the sender's clock error is taken out, the result stays within 1970 to 9999; what
    counts and cannot be read is noted."""
    assert resolve(RECEIVED, timestamp, original, sent_at) == (iso(expected), is_unreadable)


@pytest.mark.parametrize("late_ms", [-5_001, -5_000, -1, 0, 170, 1_980, 5_000, 5_001])
def test_a_given_time_stands_where_the_difference_is_transit(late_ms: int) -> None:
    """sentAt within 5 s of receipt, either way, moves nothing; what is further off is a clock's error."""
    moved_ms = late_ms if abs(late_ms) > 5_000 else 0
    expected = iso(SEVEN + moved_ms)
    assert resolve(RECEIVED, iso(SEVEN), None, iso(RECEIVED - late_ms)) == (expected, False)
    assert resolve_all(RECEIVED, [iso(SEVEN)], [RECEIVED - late_ms]) == ([expected], [])


@pytest.mark.parametrize("sent_at", [iso(SEVEN), "2026-11-20T08:00:00+01:00", SEVEN])
def test_an_event_that_calls_its_own_time_sent_at_keeps_it(sent_at: object) -> None:
    """RudderStack's Go SDK does; the other events of its batch are corrected. A batch's ``sentAt`` shifts every event:
    that one of them is as old is chance."""
    assert resolve(RECEIVED, None, iso(SEVEN), sent_at) == (iso(SEVEN), False)
    earlier = iso(SEVEN - 60_000)
    shifted = iso(RECEIVED - 60_000)
    assert resolve_all(RECEIVED, [iso(SEVEN), earlier], [sent_at] * 2)[0] == [iso(SEVEN), shifted]
    assert resolve(RECEIVED, None, iso(SEVEN), None, sent_at) == (iso(RECEIVED), False)
    mixed = resolve_all(RECEIVED, [earlier, iso(SEVEN), iso(SEVEN)], [None, None, sent_at], sent_at)[0]
    assert mixed == [shifted, iso(RECEIVED), iso(SEVEN)]


WRITTEN = st.one_of(
    st.integers(MIN_MS, MAX_MS).map(iso),
    st.integers(RECEIVED - 10_000, RECEIVED + 10_000).map(iso),
    st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", fullmatch=True),
    st.sampled_from(["2026-11- 1T07:00:00.123Z", "2026-11-20T07:00:60.123Z", "2026-11-20T07:00:00.1234Z", "x"]),
    st.text(min_size=20, max_size=30),
)
NEAR = st.integers(RECEIVED - 10_000, RECEIVED + 10_000).map(iso)
SENT_AT = st.one_of(st.none(), st.integers(MIN_MS, MAX_MS).map(iso), NEAR, st.integers(), st.just(0.0), st.text())


@given(st.lists(WRITTEN), st.lists(SENT_AT, min_size=1, max_size=3), SENT_AT, st.randoms(use_true_random=False))
def test_resolving_many_is_resolving_each(
    texts: list[str], clocks: list[object], batch_sent_at: object, random: Random
) -> None:
    """In bulk the result is the same for every text and every clock, twice over, so that what is kept is right too."""
    sent_ats = [random.choice(clocks) for _ in texts]
    pairs = list(zip(texts, sent_ats, strict=True))
    each = [resolve(RECEIVED, text, None, sent_at, batch_sent_at) for text, sent_at in pairs]
    expected = [at for at, _ in each], [index for index, (_, is_unreadable) in enumerate(each) if is_unreadable]
    assert resolve_all(RECEIVED, texts, sent_ats, batch_sent_at) == expected
    assert resolve_all(RECEIVED, texts, sent_ats, batch_sent_at) == expected


def test_seconds_are_kept_within_a_bound() -> None:
    """Timestamps of ever new seconds are right and do not fill the memory."""
    texts = [iso(SEVEN + second * 1000) for second in range(3 * timestamps._SECONDS_KEPT)]
    assert resolve_all(SEVEN, texts, [None] * len(texts)) == (texts, [])
    assert [parse(text) for text in texts[:2]] == [SEVEN, SEVEN + 1000]
    assert len(timestamps._SECOND_MS) <= timestamps._SECONDS_KEPT
    assert len(timestamps._SECOND_TEXT) <= timestamps._SECONDS_KEPT
