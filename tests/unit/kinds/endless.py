"""Servers that answer without end, and a process of its own that uses them, whose memory is looked at."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

ENDLESS_BYTES = 400 * 1024 * 1024
"""Where a server gives up, so that a client without a bound fails a test and not the machine."""
MEMORY_MB_MAX = 150
"""What a client may need for one such answer; it would need all of it several times."""

_PROGRAM = """
import resource, sys
from pathlib import Path
from hookline.kinds.sink import SinkContext, SinkFailed
import hookline.kinds.files.sink, hookline.kinds.postgres.sink, hookline.kinds.postgres.connection, obstore
from hookline.kinds.files.bucket import BucketStore
context = SinkContext("d", Path(sys.argv[1]), lambda address: None, lambda *said: None)
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = used()
try:
    {statement}
    said = ""
except SinkFailed as failure:
    said = str(failure)
print(used() - before, said)
"""


class Use(NamedTuple):
    """What came of using a server."""

    memory_mb: int
    said: str
    """Why it was refused."""


def used(folder: object, statement: str) -> Use:
    """Run a statement that uses a server, in a process of its own; ``context`` is a sink's context there."""
    program = _PROGRAM.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], check=True, capture_output=True, text=True, timeout=120
    )
    memory_mb, _, said = done.stdout.strip().partition(" ")
    return Use(int(memory_mb), said)


@contextmanager
def served(serve: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve each connection in a thread; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def each(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                serve(connection if tls is None else tls.wrap_socket(connection, server_side=True))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=each, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def send_without_end(connection: socket.socket, piece: bytes) -> None:
    """Send a piece again and again."""
    for _ in range(ENDLESS_BYTES // len(piece)):
        connection.sendall(piece)
