"""An HTTP answer that must be complete by a time: a socket's own timeout begins anew with every byte that drips in."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any


class DeadlineResponse(http.client.HTTPResponse):
    """An answer that is read until ``deadline`` (monotonic seconds) and not longer; TimeoutError afterwards."""

    def __init__(self, sock: socket.socket, deadline: float, method: str | None = None) -> None:
        super().__init__(_Source(sock, deadline), method=method)  # type: ignore[arg-type]  # all it does with it is makefile


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
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer is not complete in time")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)
