"""Whether both ports of the Hookline in this container answer ``/healthz``; exits with 1 when one does not."""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

TIMEOUT_SECONDS = 2.0


def alive(listen: str) -> bool:
    """Ask the port of a ``host:port`` that is listened on, by way of loopback."""
    connection = HTTPConnection("127.0.0.1", int(listen.rpartition(":")[2]), timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    listens = (os.environ["HOOKLINE_COLLECT_LISTEN"], os.environ["HOOKLINE_CONTROL_LISTEN"])
    sys.exit(0 if all(alive(listen) for listen in listens) else 1)
