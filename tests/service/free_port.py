"""Ports for the processes under test: nobody else gets one while the process that is meant to have it is down."""

from __future__ import annotations

import random
import socket
from collections import deque

# Below the range the kernel takes client ports from: no client socket ever has one of them.
_PORTS = range(20_000, 32_000)
_HELD_MAX = 200
_held: deque[socket.socket] = deque()


def free_port() -> int:
    """A loopback port that nobody listens on; until many others were asked for, only servers started on it get it.

    It is held by a socket that does not listen, so it refuses connections. That socket shares it with servers, which
    set SO_REUSEADDR before they bind, and not with another test run that asks for a port: that one binds without.
    """
    for port in random.sample(_PORTS, 200):
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _held.append(holder)
        if len(_held) > _HELD_MAX:
            _held.popleft().close()
        return port
    raise AssertionError("no free port")
