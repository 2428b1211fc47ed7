"""Requests that leave together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookline.deliver.send.request import Target


class Burst:
    """What requests that were sent in one go have in common."""

    __slots__ = ("began", "target")

    def __init__(self, target: Target, began: float) -> None:
        self.target = target
        """Whom they are for."""
        self.began = began
        """When they left, in seconds of the monotonic clock."""
