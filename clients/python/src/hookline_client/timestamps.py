"""Times as the service takes them: ISO 8601 in UTC with milliseconds and Z. What a caller may give is read here."""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timezone

from hookline_client.errors import CODES, InvalidCall

MILLISECONDS_FROM = 1e11
"""Numbers beyond this are milliseconds, as the service has it: as seconds this is the year 5138."""
SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999."""

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?\s*([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
).fullmatch
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,9})?", re.ASCII).fullmatch
_THOUSANDTHS = tuple(f".{number:03d}Z" for number in range(1000))

# The second last written and its text: most calls fall into the same one. One tuple, so that threads never see half.
_last: tuple[int, str] = (0, "1970-01-01T00:00:00")


def iso(now_ns: int) -> str:
    """Write nanoseconds since the epoch."""
    global _last
    second, rest = divmod(now_ns, 1_000_000_000)
    known, text = _last
    if known != second:
        year, month, day, hour, minute, seconds = time.gmtime(second)[:6]
        text = f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{seconds:02d}"
        _last = (second, text)
    return text + _THOUSANDTHS[rest // 1_000_000]


def timestamp(given: object) -> str:
    """Read what a caller gave as time; InvalidCall when it is none. A naive datetime is local time, as in Python."""
    if isinstance(given, datetime):
        return _from_datetime(given)
    if isinstance(given, date):
        return f"{given.isoformat()}T00:00:00.000Z"
    if isinstance(given, str):
        if _ISO(given):
            return given
        if _NUMBER(given):
            return _from_number(float(given))
    elif isinstance(given, (int, float)) and not isinstance(given, bool):
        return _from_number(given)
    raise InvalidCall("invalid_timestamp", CODES["invalid_timestamp"])


def _from_datetime(given: datetime) -> str:
    try:
        if type(given) is not datetime:  # pandas', for one, does not move a time without a zone
            time_of_day = given.timetz()
            given = datetime.combine(date(given.year, given.month, given.day), time_of_day)
        return given.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].rjust(23, "0") + "Z"
    except (OverflowError, TypeError, ValueError):  # a zone moves it out of the years there are, or it is pandas' NaT
        raise InvalidCall("invalid_timestamp", CODES["invalid_timestamp"]) from None


def _from_number(number: float) -> str:
    # What is too large for both is left as it is: dividing an integer beyond all floats raises.
    seconds = number / 1000 if MILLISECONDS_FROM < abs(number) <= 1000 * SECONDS_MAX else number
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:  # NaN as well
        raise InvalidCall("invalid_timestamp", CODES["invalid_timestamp"])
    return iso(round(seconds * 1000) * 1_000_000)
