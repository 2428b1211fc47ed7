"""Who is told the results of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from hookline.deliver.send.failure import Failure

if TYPE_CHECKING:
    from hookline.deliver.send.request import Target

Successes = tuple[list[object], "Target", int, int]
"""Requests that were sent together and answered alike, with 2xx: tokens, target, status and milliseconds."""


class Sink(Protocol):
    """Who is told the result of a request; ``token`` is what it gave when sending."""

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result: ``failure`` is None exactly for a 2xx; ``result`` as in ``outcome.to_number``."""

    def succeeded(self, successes: Iterable[Successes]) -> None:
        """Take the successes of one turn: note them, and begin nothing yet."""
        for tokens, target, status, milliseconds in successes:
            for token in tokens:
                self.answered(token, target, status, milliseconds, None)

    def go_on(self) -> None:
        """Begin what the successes of this turn made room for, on their connections."""
        return
