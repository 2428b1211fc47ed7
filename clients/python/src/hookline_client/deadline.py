"""A connection and an HTTP answer that must be there by a time (monotonic seconds).

A socket's own timeout begins anew with every address of a host, and with every byte of an answer that drips in.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Sequence
from typing import Any


def seconds_left(deadline: float) -> float:
    """Return the seconds until then; TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def connect(addresses: Sequence[tuple[Any, ...]], deadline: float) -> socket.socket:
    """Connect to the first address that answers, as ``getaddrinfo`` gives them; OSError when none does.

    Each has its share of the time: behind one that is silent, such as an IPv6 address without a way to it, there is
    time for the next, and for the request.
    """
    failure: OSError = OSError("no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        connection: socket.socket | None = None
        try:
            connection = socket.socket(family, kind, protocol)  # fails where the system has no IPv6
            connection.settimeout(seconds_left(deadline) / (len(addresses) - number))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError as error:
            if connection is not None:
                connection.close()
            failure = error
    raise failure


class DeadlineResponse(http.client.HTTPResponse):
    """An answer that is read until ``deadline`` (monotonic seconds) and not longer; TimeoutError afterwards."""

    def __init__(self, sock: socket.socket, deadline: float, method: str | None = None) -> None:
        super().__init__(_Source(sock, deadline), method=method)  # type: ignore[arg-type]  # all it does with it is makefile

    def _read_status(self) -> tuple[str, int, str]:
        """Have every answer that only announces another one passed over: the base class does so with 100 alone."""
        version, status, reason = super()._read_status()  # type: ignore[misc]  # no type knows it
        is_interim = 100 <= status < 200 and status != http.client.SWITCHING_PROTOCOLS
        return version, http.client.CONTINUE if is_interim else status, reason


class _Source:
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Bytes(self._sock, self._deadline))


class _Bytes(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._sock = sock
        # It keeps the socket open: http.client closes its own end once it knows that the connection ends with the body.
        self._file = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(seconds_left(self._deadline))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
