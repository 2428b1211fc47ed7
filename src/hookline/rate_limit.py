"""A rate limit as people write it: the same in ``hookline.yaml``, the environment, the connections file and the API."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hookline.setting_values import parse_duration, parse_size

RATE_MAX = 1_000_000_000
BURST_SECONDS = 10.0
"""The usual burst: what came in ten seconds' time may come at once."""
BURST_SECONDS_MAX = 86_400.0

Whole = Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)]
Number = Annotated[float, msgspec.Meta(gt=0, le=RATE_MAX)]
Size = Annotated[str, msgspec.Meta(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)? ?([KMGkmg]?[Bb])?\Z")]
Duration = Annotated[str, msgspec.Meta(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)?\Z")]


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The ``events`` and ``bytes`` (after inflation) taken each second, and how many seconds' worth at once.

    ``bytes`` may be written like ``1MB``, ``burst`` like ``10s``. What is not given is not limited, and on a source it
    is as the setting has it.
    """

    events: Whole | Number | None = None
    bytes: Whole | Size | None = None
    burst: Whole | Number | Duration | None = None

    def fault(self) -> tuple[str, str] | None:
        """Return the field that cannot be used and what to write instead; None when all can."""
        if self.bytes is not None and not 1 <= parse_size(self.bytes) <= RATE_MAX:
            return "bytes", "write a size from 1 to 1GB, for each second"
        if self.burst is not None and not 0 < parse_duration(self.burst) <= BURST_SECONDS_MAX:
            return "burst", "write a duration of at most a day, such as 10s"
        return None

    def over(self, usual: RateLimit | None) -> RateLimit:
        """Return this limit with the usual one's numbers where it has none."""
        if usual is None:
            return self
        return RateLimit(
            events=usual.events if self.events is None else self.events,
            bytes=usual.bytes if self.bytes is None else self.bytes,
            burst=usual.burst if self.burst is None else self.burst,
        )

    def bounds(self) -> tuple[float | None, float | None, float]:
        """Return the events and bytes of a second, and the seconds that may come at once."""
        bytes_ = None if self.bytes is None else float(parse_size(self.bytes))
        burst = BURST_SECONDS if self.burst is None else parse_duration(self.burst)
        return self.events, bytes_, burst

    def __str__(self) -> str:
        given = (("events", self.events), ("bytes", self.bytes), ("burst", self.burst))
        return ",".join(f"{name}={value}" for name, value in given if value is not None)


def parse_rate_limit(raw: object) -> RateLimit | None:
    """Return the limit that a setting holds: an object, its JSON, or ``events=100,bytes=1MB,burst=10s``.

    Raise ValueError that says what to write.
    """
    if raw is None or raw == "" or raw == {} or raw == "none":
        return None
    if isinstance(raw, RateLimit):
        return raw
    try:
        fields = _fields(raw) if isinstance(raw, str) else raw
        limit = msgspec.convert(fields, RateLimit)
    except msgspec.MsgspecError as error:
        raise ValueError(f"write events, bytes and burst, such as events=100,bytes=1MB,burst=10s: {error}") from None
    if (fault := limit.fault()) is not None:
        raise ValueError("{}: {}".format(*fault))
    if limit.events is None and limit.bytes is None:
        raise ValueError("write events or bytes, or both: a burst alone limits nothing")
    return limit


def _fields(text: str) -> object:
    if text.lstrip().startswith("{"):
        return msgspec.json.decode(text)
    pairs = [part.partition("=") for part in text.split(",")]
    fields: dict[str, object] = {name.strip(): value.strip() for name, _, value in pairs}
    if "events" in fields:
        try:
            fields["events"] = float(str(fields["events"]))
        except ValueError:
            pass  # the conversion says it better
    return fields
