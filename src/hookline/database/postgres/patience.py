"""Waiting for an answer as long as the server is there: one that takes no new connection either is given up.

A server that is frozen, or behind a cut cable, closes nothing, and a statement may rightly take long: so a quiet one is
no reason to give it up, and a server that does not greet a newcomer is.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

ResultT = TypeVar("ResultT")

QUIET_SECONDS = 5.0
"""From one look at the server to the next while no answer comes."""


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """``address`` is what it was connected by."""

    address = ""

    def wait(self, gen: Generator[Any, Any, ResultT], *arguments: Any, **options: Any) -> ResultT:
        """As psycopg's, which runs the generator; raise OperationalError, closed, when the server is gone."""
        return super().wait(self._watched(gen), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, ResultT]) -> Generator[Any, Any, ResultT]:
        looked = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() - looked >= QUIET_SECONDS:
                    self._look()
                    looked = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as done:
            result: ResultT = done.value
            return result

    def _look(self) -> None:
        try:
            psycopg.connect(self.address).close()
        except psycopg.OperationalError:
            self.close()
            raise
