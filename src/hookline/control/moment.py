"""A moment in a query parameter: ISO 8601 with an offset or Z."""

from __future__ import annotations

from datetime import datetime

import msgspec

from hookline.control.problem import Problem
from hookline.replays.model import Moment


def milliseconds(name: str, text: str | None) -> int | None:
    """Return the moment since the epoch, None when none is given; raise Problem that names the parameter."""
    if text is None:
        return None
    try:
        moment: datetime = msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        detail = f"Write {name} as ISO 8601 with an offset, such as 2026-11-20T07:00:00Z."
        raise Problem(400, "invalid_parameter", detail) from None
    return int(moment.timestamp() * 1000)
