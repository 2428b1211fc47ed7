"""The sender of the crash report, ended by SIGTERM.

Runs as ``python bench/crash/sender.py PORT LEDGER EVENTS_PER_SECOND PADDING_BYTES``.

It behaves as an SDK does: what was not acknowledged is sent again with the same messageIds until it is. An id is
written to the ledger file only after the 200 that acknowledges it was read. On SIGTERM every thread finishes what it
began, so at the end each id it ever sent is acknowledged. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import secrets
import signal
import sys
import threading
import time

WRITE_KEY = "wk_site"
THREADS = 8
BATCH_EVENTS = 10
RUN = secrets.token_hex(4)
"""In every messageId; a process number would come again in a long run."""
PAUSE_SECONDS = 0.02
"""Before what was refused or cut off is sent again."""

stop = threading.Event()


def events(thread: int, count: int, start: int, padding: str) -> list[dict[str, object]]:
    """The next events of a thread; each user is one thread's, so order per user can be checked."""
    return [
        {
            "type": "track",
            "userId": f"user-{thread}",
            "event": "Load",
            "messageId": f"{RUN}-{thread}-{n}",
            "properties": {"n": n, "padding": padding},
        }
        for n in range(start, start + count)
    ]


def post(connection: http.client.HTTPConnection, batch: list[dict[str, object]]) -> bool:
    """One request, a batch or a single call; True only after a 200 that takes every event."""
    path, body = ("/v1/batch", {"batch": batch}) if len(batch) > 1 else ("/v1/track", batch[0])
    key = base64.b64encode(f"{WRITE_KEY}:".encode()).decode()
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Basic {key}"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == 200:
        told = json.loads(text)
        return bool(told["success"]) and not told.get("rejected")
    if answer.status != 503:
        print(f"unexpected answer {answer.status}: {text!r}", file=sys.stderr, flush=True)
    return False


def run(thread: int, port: int, ledger: int, events_per_second: float, padding: str) -> None:
    """Send batches, now and then a single call, at the thread's share of the rate."""
    sizes = itertools.cycle([BATCH_EVENTS, BATCH_EVENTS, BATCH_EVENTS, 1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    sent, due = 0, time.monotonic()
    while not stop.is_set():
        size = next(sizes)
        batch = events(thread, size, sent, padding)
        while not _try(connection, batch):
            connection.close()
            time.sleep(PAUSE_SECONDS)
        os.write(ledger, "".join(f"{event['messageId']}\n" for event in batch).encode())
        sent += size
        due = max(due + size * THREADS / events_per_second, time.monotonic() - 0.1)
        time.sleep(max(0.0, due - time.monotonic()))


def _try(connection: http.client.HTTPConnection, batch: list[dict[str, object]]) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return post(connection, batch)
    return False


def main() -> None:
    """Run until SIGTERM."""
    port, path, events_per_second, padding_bytes = sys.argv[1:5]
    ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    arguments = (int(port), ledger, float(events_per_second), "x" * int(padding_bytes))
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threads = [threading.Thread(target=run, args=(n, *arguments)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)


if __name__ == "__main__":
    main()
