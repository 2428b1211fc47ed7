"""What a call costs and how many events a process brings to a local Hookline, ours beside two others, in one run.

Usage: compare.py [--events N] [--rounds N], with the Python that has them; scripts/client-bench.sh sets it up. Starts a
Hookline of its own in a temporary folder; posthog, which speaks to PostHog only, sends to a stub that does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KEY = "wk_bench"
READY_SECONDS = 60.0


def main() -> None:
    """Run every library in turn, some rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {}
    with service() as endpoint, stub() as nothing:
        for _ in range(given.rounds):
            for library, where, events in (
                ("hookline", endpoint, given.events),
                ("segment", endpoint, given.events // 5),
                ("posthog", nothing, given.events // 5),
            ):
                runs.setdefault(library, []).append(run(library, where, events))
    columns = ("median_us", "p99_us", "events_per_second", "cpu_us_per_event")
    print("| library | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for library, found in runs.items():
        medians = (f"{statistics.median(one[column] for one in found):,g}" for column in columns)
        print(f"| {library} | " + " | ".join(medians) + " |")


def run(library: str, endpoint: str, events: int) -> dict[str, float]:
    """One library in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    command = [sys.executable, str(HERE / "sending.py"), library, endpoint, KEY, str(events)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


@contextmanager
def service() -> Iterator[str]:
    """A Hookline without destinations: what is measured is the library and the acknowledgement."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as one, socket.socket() as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
        ports = [sock.getsockname()[1] for sock in (one, other)]
        one.close()
        other.close()
        source = {"id": "bench", "name": "Bench", "type": "server", "writeKeys": [KEY]}
        Path(folder, "connections.yaml").write_text(json.dumps({"sources": [source]}))
        Path(folder, "hookline.yaml").write_text(
            json.dumps(
                {
                    "data_dir": f"{folder}/data",
                    "collect": {"listen": f"127.0.0.1:{ports[0]}"},
                    "control": {"listen": f"127.0.0.1:{ports[1]}"},
                }
            )
        )
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen(
                [ROOT / ".venv/bin/hookline", "up"], cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            wait_ready(f"http://127.0.0.1:{ports[0]}/readyz")
            yield f"http://127.0.0.1:{ports[0]}"
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def stub() -> Iterator[str]:
    """A server that takes everything."""
    process = subprocess.Popen([sys.executable, HERE / "stub.py"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(60)


def wait_ready(url: str) -> None:
    """Until the service answers 200."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (OSError, urllib.error.URLError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


main()
