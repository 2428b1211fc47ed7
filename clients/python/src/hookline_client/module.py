"""The one client of a process and the calls on it, as PHP holds it: ``init`` once, then ``track`` and the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hookline_client.client import FLUSH_SECONDS, Client
from hookline_client.errors import InvalidOption
from hookline_client.log import logger
from hookline_client.receipts import FlushResult
from hookline_client.verbs import Verbs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hookline_client.option_values import OptionValues

_lock = threading.RLock()  # a signal handler may close while its thread is in the middle of init
_client: Client | None = None
_given: tuple[str | None, dict[str, Any]] | None = (None, {})
"""What ``init`` was called with; None when whatever it is called with means the client there is."""


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


class _ModuleVerbs(Verbs):
    """The calls on whatever client there is when they are made."""

    def _call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        made = _client  # read once: a signal handler or another thread may close in between
        if made is None:
            logger().warning("init(write_key) was not called yet; the %s call is ignored", kind)
            return None
        return made._call(kind, given, fields)


verbs = _ModuleVerbs()
identify = verbs.identify
track = verbs.track
page = verbs.page
screen = verbs.screen
group = verbs.group
alias = verbs.alias


def init(write_key: str | None = None, options: OptionValues | None = None, **more: Unpack[OptionValues]) -> Client:
    """Make the client of this process, and return it.

    Once per process: again with the same arguments it is the same client, with others an InvalidOption, until
    ``close``.
    """
    global _client, _given
    values: OptionValues = {**(options or {}), **more}
    given = (write_key, dict(values))
    with _lock:
        made = _client
        if made is None:
            made = Client(write_key, values)
            _client, _given = made, given
        elif _given is not None and given != _given:
            raise InvalidOption("invalid_option", "init was called before with other arguments; close() first")
        return made


def client() -> Client | None:
    """The client of this process, None before ``init``."""
    return _client


def flush(timeout: float | None = FLUSH_SECONDS) -> FlushResult:
    """Return when every event queued before is acknowledged or lost: ``Client.flush``."""
    made = _client
    return FlushResult() if made is None else made.flush(timeout)


def close(timeout: float | None = None) -> FlushResult:
    """Flush and end the client of this process: ``Client.close``. ``init`` may be called again then."""
    global _client
    with _lock:
        made, _client = _client, None
    return FlushResult() if made is None else made.close(timeout)


@contextmanager
def stand_in(made: Client) -> Iterator[None]:
    """Have ``made`` be the client of this process, whatever ``init`` is called with; then it is the one of before."""
    global _client, _given
    with _lock:
        before = _client, _given
        _client, _given = made, None
    try:
        yield
    finally:
        with _lock:
            _client, _given = before
