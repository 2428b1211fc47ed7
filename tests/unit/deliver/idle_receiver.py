"""A receiver in a process of its own that closes connections which rest: ``python -m ... REST_SECONDS JITTER_SECONDS``.

It prints its port, then the id of each request that it has taken; it ends with its input.
"""

from __future__ import annotations

import os
import random
import re
import socket
import sys
import threading

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def serve(connection: socket.socket, rest_seconds: float, jitter_seconds: float) -> None:
    """Answer requests until none has come for about so long."""
    with connection:
        connection.settimeout(10)
        try:
            while asked := connection.recv(65_536):
                found = re.search(rb"X-Message-Id: (\S+)", asked)
                os.write(1, b"%b\n" % (found[1] if found else b"?"))  # in one piece, whichever threads write
                connection.sendall(OK)
                connection.settimeout(max(0.000_1, random.gauss(rest_seconds, jitter_seconds)))
        except OSError:
            pass  # it has rested for long enough


def accept(server: socket.socket, rest_seconds: float, jitter_seconds: float) -> None:
    """Take connections, each in a thread of its own."""
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection, rest_seconds, jitter_seconds), daemon=True).start()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    print(listening.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listening, *map(float, sys.argv[1:3])), daemon=True).start()
    sys.stdin.read()
