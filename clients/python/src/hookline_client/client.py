"""One client of one source, as Go holds it: calls are queued at once and sent in the background.

In production no call raises or blocks: what is wrong is counted, logged, and told to ``error_handler``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from hookline_client.options import resolve
from hookline_client.receipts import FlushResult
from hookline_client.session import Session
from hookline_client.session_verbs import SessionVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hookline_client.option_values import OptionValues

FLUSH_SECONDS = 10.0
"""How long ``flush`` waits when it is not told."""


class Client(SessionVerbs):
    """Sends calls for the source of ``write_key``; options are given by name or as one mapping.

    Threads may share it. It is fine to fork after it was made, and to end the process without ``close``: events that
    wait then get ``exit_timeout`` seconds.
    """

    def __init__(
        self, write_key: str | None = None, options: OptionValues | None = None, **more: Unpack[OptionValues]
    ) -> None:
        self._session = Session(resolve(write_key, {**(options or {}), **more}))

    def flush(self, timeout: float | None = FLUSH_SECONDS) -> FlushResult:
        """Return when every event queued before is acknowledged or lost, or after ``timeout`` seconds, and say which.

        What happened since the last flush is told once: with several threads flushing, by one of them.
        """
        return self._living.flush(timeout)

    def close(self, timeout: float | None = None) -> FlushResult:
        """Flush, then end: later calls are dropped. ``timeout`` is ``exit_timeout`` when not given."""
        return self._living.close(timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(FLUSH_SECONDS)
