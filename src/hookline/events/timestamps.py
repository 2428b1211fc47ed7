"""Timestamps: every form that SDKs write in, one form out (``2026-11-20T07:00:00.123Z``), and clock-skew correction.

Times are whole milliseconds since the epoch. Nothing here raises: what cannot be read counts as not given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite

MILLISECONDS_FROM = 1e11
"""Numbers beyond this are milliseconds, not seconds: as seconds this is the year 5138, as milliseconds 1973."""

MIN_MS = -62_135_596_800_000
"""0001-01-01T00:00:00.000Z."""

MAX_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""

TRANSIT_MS_MAX = 5_000
"""Up to this a difference between ``sentAt`` and receipt is transit, whole seconds or a clock as good as any."""

TEXT_LENGTH_MAX = 64
"""Longer than any form of a timestamp; bounds the work on hostile input."""

_SECOND_LENGTH = len("2026-11-20T07:00:00")
_BARE_DATE_LENGTH = len("2026-11-20")
_UNREAD = object()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = datetime(1970, 1, 1)
_SECONDS_KEPT = 1_024
_REST_TEXT = tuple(f".{rest:03d}Z" for rest in range(1000))  # half the time of formatting them
_REST_MS = {text: rest for rest, text in enumerate(_REST_TEXT)}
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?").fullmatch
# What datetime.fromisoformat refuses although SDKs and people write it: lower-case z, a leap second, a zone by name.
_LENIENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)([.,]\d+)?\s*(?:([Zz]|UTC|GMT)|([+-]\d\d):?(\d\d)?)?", re.ASCII
).fullmatch


def parse(value: object) -> int | None:
    """Return the time a caller gave (ISO 8601 text; or seconds since the epoch as a number or digits), else None."""
    if value.__class__ is str:
        # The form that most SDKs write; within a second all events share the part that is dear to read.
        rest = _REST_MS.get(value[_SECOND_LENGTH:])
        if rest is not None:
            try:
                return _SECOND_MS[value[:_SECOND_LENGTH]] + rest
            except KeyError:
                pass
        return _parse_text(value)
    if value.__class__ is int and MILLISECONDS_FROM < value <= MAX_MS:
        return value
    if value is None or isinstance(value, bool):
        return None
    # A tuple: `int | float` would build a union on every call of the collection edge's hot path.
    return _parse_number(value) if isinstance(value, (int, float)) else None


def is_unreadable(time: object) -> bool:
    """Return whether something was given as a time that is none."""
    return time is not None and time != "" and parse(time) is None


def iso(ms: int) -> str:
    """Write a time within the years 0001 to 9999."""
    second, rest = divmod(ms, 1000)
    return _SECOND_TEXT[second] + _REST_TEXT[rest]


_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z)", re.ASCII)


def split_at_times(text: str) -> list[str]:
    """Return the text in parts, every second of which is a time as we write it: pages show those in the zone of whoever
    reads them."""
    return _WRITTEN.split(text)


def resolve(
    received_at_ms: int,
    timestamp: object,
    original_timestamp: object,
    own_sent_at: object,
    batch_sent_at: object = None,
) -> tuple[str, bool]:
    """Return the final timestamp of an event, and whether a time that counts, or ``sentAt``, cannot be read.

    ``timestamp`` counts, else ``originalTimestamp``, else the time of receipt. With ``sentAt``, the event's own or else
    its batch's, the sender's clock error is taken out: received - (sentAt - timestamp). It says nothing of the clock
    where it differs from receipt by no more than transit takes, or where the event's own is its time (RudderStack's Go
    SDK): what was given stands then. A batch's may equal it by chance, as PHP's whole seconds often do. The result lies
    within the years 1970 to 9999.
    """
    sent_at = own_sent_at or batch_sent_at
    given = timestamp if timestamp is not None and timestamp != "" else original_timestamp
    ms = parse(given)
    if ms is None:
        return iso(received_at_ms), is_unreadable(given) or is_unreadable(sent_at)
    is_sent_at_unreadable = False
    if sent_at is not None:
        sent_at_ms = parse(sent_at)
        if sent_at_ms is None:
            is_sent_at_unreadable = sent_at != ""
        elif sent_at_ms != ms or not own_sent_at:
            ms += _clock_error_ms(received_at_ms, sent_at_ms)
    if 0 <= ms < MAX_MS:  # what iso() does, without a call for nearly every event
        second, rest = divmod(ms, 1000)
        return _SECOND_TEXT[second] + _REST_TEXT[rest], is_sent_at_unreadable
    return _iso_within(ms), is_sent_at_unreadable


def resolve_all(
    received_at_ms: int, timestamps: Sequence[str], own_sent_ats: Sequence[object], batch_sent_at: object = None
) -> tuple[list[str], list[int]]:
    """Return what ``resolve`` returns for each timestamp and its event's own ``sentAt``, and the indexes of those of
    which one cannot be read; in bulk they cost half.

    None of the timestamps is empty. The events' own ``sentAt`` is mostly the same for all, or missing, and read once
    then.
    """
    resolved: list[str] = []
    unreadable: list[int] = []
    is_sent_at_unreadable = False
    own_sent_at: object = _UNREAD
    own_sent_at_ms: int | None = None
    error_ms = 0
    for text, next_sent_at in zip(timestamps, own_sent_ats, strict=True):
        if next_sent_at is not own_sent_at and next_sent_at != own_sent_at:
            own_sent_at = next_sent_at
            sent_at = own_sent_at or batch_sent_at
            sent_at_ms = parse(sent_at)
            own_sent_at_ms = sent_at_ms if own_sent_at else None
            is_sent_at_unreadable = sent_at_ms is None and sent_at is not None and sent_at != ""
            error_ms = 0 if sent_at_ms is None else _clock_error_ms(received_at_ms, sent_at_ms)
        try:
            ms = _SECOND_MS[text[:_SECOND_LENGTH]] + _REST_MS[text[_SECOND_LENGTH:]]
        except KeyError:
            read = parse(text)
            if read is None:
                unreadable.append(len(resolved))
                resolved.append(iso(received_at_ms))
                continue
            ms = read
        if is_sent_at_unreadable:
            unreadable.append(len(resolved))
        if error_ms and ms != own_sent_at_ms:
            ms += error_ms
        if 0 <= ms < MAX_MS:
            second, rest = divmod(ms, 1000)
            resolved.append(_SECOND_TEXT[second] + _REST_TEXT[rest])
        else:
            resolved.append(_iso_within(ms))
    return resolved, unreadable


def _iso_within(ms: int) -> str:
    return iso(0 if ms < 0 else ms if ms < MAX_MS else MAX_MS)


def _clock_error_ms(received_at_ms: int, sent_at_ms: int) -> int:
    error_ms = received_at_ms - sent_at_ms
    return error_ms if abs(error_ms) > TRANSIT_MS_MAX else 0


def _parse_text(text: str) -> int | None:
    # A hyphen after the year tells a date from digits: 20261120 and 1763622000123 are numbers, not dates.
    if len(text) > _BARE_DATE_LENGTH and text[4] == "-":
        try:
            return _ms_of(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            pass
    return _parse_other(text.strip())


def _ms_of(moment: datetime) -> int | None:
    delta = moment - (_EPOCH_WITHOUT_ZONE if moment.tzinfo is None else _EPOCH)
    ms = (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000
    return ms if MIN_MS <= ms <= MAX_MS else None


def _parse_other(text: str) -> int | None:
    if len(text) > TEXT_LENGTH_MAX:
        return None
    if _NUMBER(text) is not None:
        return _parse_number(float(text))
    match = _LENIENT(text)
    try:
        if match is None:
            return _ms_of(datetime.fromisoformat(text))
        date, minute, second, fraction, _, hours, minutes = match.groups()
        leap = second == "60"
        zone = f"{hours}:{minutes or '00'}" if hours else "+00:00"
        moment = datetime.fromisoformat(f"{date}T{minute}:{'59' if leap else second}{fraction or ''}{zone}")
    except (ValueError, OverflowError):
        return None
    ms = _ms_of(moment)
    return min(ms + 1000, MAX_MS) if leap and ms is not None else ms


def _parse_number(value: float) -> int | None:
    if isinstance(value, float) and not isfinite(value):
        return None
    ms = round(value if abs(value) > MILLISECONDS_FROM else value * 1000)
    return ms if MIN_MS <= ms <= MAX_MS else None


class _SecondMs(dict[str, int]):
    """The start of each second written as 2026-11-20T07:00:00; KeyError for what is no such text."""

    def __missing__(self, text: str) -> int:
        try:
            ms = _ms_of(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")) if text.isascii() else None
        except ValueError:
            ms = None
        if ms is None:
            raise KeyError(text)
        if len(self) >= _SECONDS_KEPT:
            self.clear()
        self[text] = ms
        return ms


class _SecondText(dict[int, str]):
    """The other way round, for seconds within the years 0001 to 9999."""

    def __missing__(self, second: int) -> str:
        text = (_EPOCH_WITHOUT_ZONE + timedelta(seconds=second)).isoformat()
        if len(self) >= _SECONDS_KEPT:
            self.clear()
        self[second] = text
        return text


_SECOND_MS = _SecondMs()
_SECOND_TEXT = _SecondText()
