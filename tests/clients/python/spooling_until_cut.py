"""A program for the test of power cuts: fill a spool while nobody answers, and write down what was brought to the disk.

Usage: spooling_until_cut.py ENDPOINT SPOOL PROMISED SYNCED. Each messageId that a call returned is a line of PROMISED;
each time a sync has ended, SYNCED gets the number of lines there were when it began.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hookline_client import Client
from hookline_client.spool.box import Box

PACE_SECONDS = 0.001


def main(endpoint: str, spool: str, promised: str, synced: str) -> None:
    """Track for ever."""
    count = 0
    sync = Box.sync

    def counted(box: Box) -> None:
        before = count
        sync(box)
        with Path(synced).open("a") as file:
            file.write(f"{before}\n")

    Box.sync = counted  # type: ignore[method-assign]
    client = Client("wk_site", endpoint=endpoint, spool=spool)
    with Path(promised).open("a", buffering=1) as file:
        while True:
            file.write(f"{client.track('u1', 'Event')}\n")
            count += 1
            time.sleep(PACE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
