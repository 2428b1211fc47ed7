"""A program for the kill tests: track until the file STOP exists, through ``file`` and through a spool in turn.

Usage: killed_client.py ENDPOINT WRITE_KEY LOG SPOOL LEDGER STOP. Each messageId that a call returned is appended to
LEDGER: from then on the event may not be lost.
"""

from __future__ import annotations

import os
import sys
import time

from hookline_client import Client

PACE_SECONDS = 0.004


def main(endpoint: str, write_key: str, log: str, spool: str, ledger: str, stop: str) -> None:
    """Track, and write down what was promised."""
    promised = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    clients = (
        Client(write_key, endpoint=endpoint, consumer="file", filename=log),
        Client(write_key, endpoint=endpoint, spool=spool, flush_after=0.05, timeout=2.0),
    )
    number = 0
    while not os.path.exists(stop):
        # A user per event, so that nothing but the messageId can make two events the same.
        message_id = clients[number % 2].track(
            f"{os.getpid()}-{number}", "Killed", {"filler": "x" * (number % 50) * 20}
        )
        if message_id is not None:
            os.write(promised, f"{message_id}\n".encode())
        number += 1
        time.sleep(PACE_SECONDS)
    for client in clients:
        client.close(10)


if __name__ == "__main__":
    main(*sys.argv[1:])
