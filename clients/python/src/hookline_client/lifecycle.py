"""What happens to clients when their process forks or ends: one hook of each kind for all of them.

A session is known here until it is closed, so that events of a client that nobody holds any more are not forgotten.
SIGTERM and all other signals are left alone.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Living(Protocol):
    """What can be told about forks and the end."""

    def before_fork(self) -> None:
        """The process is about to be copied."""

    def after_fork_in_parent(self) -> None:
        """It was; this is the original."""

    def after_fork_in_child(self) -> None:
        """It was; this is the copy."""

    def end_of_process(self, gone_seconds: float) -> None:
        """Send what waits, within the exit timeout, of which so much is gone."""


_living: dict[int, Living] = {}
_lock = threading.RLock()  # a signal handler may make a client, or fork, while its thread makes one
_forking: list[Living] = []
_held: list[Living] = []
_installed = False
_ended = False


def register(client: Living) -> None:
    """Tell this one from now on."""
    global _installed
    with _lock:
        _living[id(client)] = client
        if not _installed:
            _installed = True
            os.register_at_fork(
                before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
            )
            atexit.register(_end)


def unregister(client: Living) -> None:
    """Forget this one."""
    _living.pop(id(client), None)


def ended() -> bool:
    """Return whether the end of the process has begun: it is no time for new threads."""
    return _ended or sys.is_finalizing()


def arm_child() -> None:
    """In a child of multiprocessing, which ends without atexit: have it flush when its work is done."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _end, exitpriority=100)


def _before_fork() -> None:
    _lock.acquire()
    _forking[:] = list(_living.values())
    _tell_all(_forking, _hold)


def _after_fork_in_parent() -> None:
    held = _held[::-1]
    _held.clear()
    _lock.release()
    _tell_all(held, lambda client: client.after_fork_in_parent())


def _after_fork_in_child() -> None:
    global _lock
    _held.clear()
    _lock = threading.RLock()
    _tell_all(_forking, lambda client: client.after_fork_in_child())


def _hold(client: Living) -> None:
    client.before_fork()
    _held.append(client)


def _tell_all(clients: list[Living], tell: Callable[[Living], None]) -> None:
    """Tell every one, also when one raises; what the first one raised is raised last, and the interpreter reports it.

    A program's own consumer may be wrong. The others must still hold their locks, and release them.
    """
    wrong: Exception | None = None
    for client in clients:
        try:
            tell(client)
        except Exception as error:  # noqa: BLE001 - a program's own code; raised again below
            wrong = wrong or error
    if wrong is not None:
        raise wrong


def _end() -> None:
    global _ended
    _ended = True
    began = time.monotonic()
    clients = list(_living.values())
    try:
        # Many clients delay the end no longer than one.
        _tell_all(clients, lambda client: client.end_of_process(time.monotonic() - began))
    finally:
        for client in clients:
            unregister(client)


# Again, behind the exit handlers of the program that began later than this import: they may make clients.
atexit.register(_end)
