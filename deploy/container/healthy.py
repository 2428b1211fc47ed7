"""Whether both ports of the Hookline in this container answer ``/healthz``; exits with 1 when one does not.

With ``all`` behind it: whether every role works, as ``/readyz?all`` of the control port says. That is for people and
for what waits for Hookline, not for what restarts containers: a database that is away is no reason to.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

TIMEOUT_SECONDS = 2.0


def answers(listen: str, path: str = "/healthz") -> bool:
    """Ask the port of a ``host:port`` that is listened on, by way of loopback."""
    connection = HTTPConnection("127.0.0.1", int(listen.rpartition(":")[2]), timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    listens = (os.environ["HOOKLINE_COLLECT_LISTEN"], os.environ["HOOKLINE_CONTROL_LISTEN"])
    is_well = answers(listens[1], "/readyz?all") if sys.argv[1:] == ["all"] else all(map(answers, listens))
    sys.exit(0 if is_well else 1)
