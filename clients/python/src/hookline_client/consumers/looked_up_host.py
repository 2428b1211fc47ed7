"""The addresses of a host, looked up beside the caller: the system's look-up knows no time limit."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

FRESH_SECONDS = 60.0
"""After this the name is looked up again; meanwhile the addresses known are used."""

Addresses = list[tuple[Any, ...]]


class LookedUpHost:
    """What ``getaddrinfo`` says of one host and port. Safe with many threads."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._lock = threading.RLock()  # a signal handler may make a call while its thread is in one
        self._known: Addresses = []
        self._known_at = float("-inf")
        self._lookup: _Lookup | None = None

    def addresses(self, timeout: float) -> Addresses:
        """Return them; TimeoutError when the first look-up takes longer, OSError when it fails."""
        with self._lock:
            if self._known and time.monotonic() - self._known_at < FRESH_SECONDS:
                return self._known
            if self._lookup is None:
                self._lookup = _Lookup(self._host, self._port)
            lookup, known = self._lookup, self._known
        if not known and not lookup.wait(timeout):
            raise TimeoutError(f"looking up {self._host} takes longer")
        if lookup.is_done:
            known = self._take(lookup)
        if not known:
            raise lookup.error or OSError(f"{self._host} has no address")
        return known

    def forked(self) -> None:
        """A look-up under way stayed in the parent."""
        self._lock = threading.RLock()
        self._lookup = None

    def _take(self, lookup: _Lookup) -> Addresses:
        with self._lock:
            if self._lookup is lookup:
                self._lookup = None
                if lookup.found:
                    self._known, self._known_at = lookup.found, time.monotonic()
            return self._known


class _Lookup:
    """One call of ``getaddrinfo`` in a thread of its own, where it cannot hold anybody up."""

    def __init__(self, host: str, port: int) -> None:
        self.is_done = False
        self._done = threading.Condition()  # no Event, whose lock is not re-entrant: again for signal handlers
        self.found: Addresses = []
        self.error: OSError | None = None
        try:
            threading.Thread(target=self._run, args=(host, port), name="hookline-lookup", daemon=True).start()
        except RuntimeError:  # the interpreter is ending, or there may be no more threads
            self._run(host, port)

    def wait(self, timeout: float) -> bool:
        """Return True once it is done, False after so many seconds."""
        with self._done:
            return self._done.wait_for(lambda: self.is_done, timeout)

    def _run(self, host: str, port: int) -> None:
        try:
            self.found = list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            self.error = error if isinstance(error, OSError) else OSError(str(error))
        with self._done:
            self.is_done = True
            self._done.notify_all()
