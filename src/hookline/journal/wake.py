"""Poking whoever reads the journal on this machine after something was stored."""

from __future__ import annotations

import socket
from pathlib import Path


class Wake:
    """Sends a datagram to a socket that a reader listens on; no one needs to be there."""

    def __init__(self, path: Path | None) -> None:
        self._address = str(path) if path else None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def poke(self) -> None:
        """Tell the reader to look."""
        if self._address is not None:
            try:
                self._socket.sendto(b"\0", self._address)
            except OSError:
                pass  # no one listens, or has enough pokes waiting: readers also look by themselves

    def close(self) -> None:
        """Give back the socket."""
        self._socket.close()
