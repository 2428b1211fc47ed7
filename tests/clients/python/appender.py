"""A program for tests: append numbered lines to a log file until the file STOP exists, then print how many.

Usage: appender.py LOG NAME STOP
"""

from __future__ import annotations

import json
import os
import sys
import time

from hookline_client.log_file import LogFile

PAUSE_SECONDS = 0.001
"""Ten lines at once, then a pause: otherwise the test spends its time reading."""


def main(log_path: str, name: str, stop: str) -> None:
    """Append; every hundredth line is longer than a page, so that it could be torn."""
    log, number = LogFile(log_path), 0
    while not os.path.exists(stop):
        filler = "x" * (9_000 if number % 100 == 0 else 100)
        try:
            log.append(json.dumps({"name": name, "number": number, "filler": filler}).encode())
        except TimeoutError:  # a machine so busy that the lock was not to be had; nothing of the line is there
            continue
        number += 1
        if number % 10 == 0:
            time.sleep(PAUSE_SECONDS)
    sys.stdout.write(str(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
