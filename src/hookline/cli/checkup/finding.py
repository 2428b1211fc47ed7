"""One thing that ``hookline doctor`` has looked at, and what to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """``ok``: as it should be. ``warn``: not wrong now, and worth knowing. ``fail``: wrong."""

    check: str
    status: Status
    message: str
    next_step: str | None = None
