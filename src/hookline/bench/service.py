"""A real service for the benchmark, in a folder and on ports of its own: started, looked at, and stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from hookline.bench.event import WRITE_KEY

SECRET = "bench-shared-secret"
START_WAIT_SECONDS = 30.0
STOP_WAIT_SECONDS = 15.0
ROLES = ("collect", "deliver", "control")
PORTS = range(20_000, 32_000)


class Service:
    """``hookline up`` with one source and one signed webhook destination."""

    def __init__(self, folder: Path, receiver_port: int) -> None:
        self.folder = folder
        self.collect_port = free_port()
        self.control_port = free_port(besides=self.collect_port)
        folder.mkdir(parents=True)
        (folder / "hookline.yaml").write_text("{}\n")
        (folder / "connections.yaml").write_text(_connections(receiver_port))
        self._process: subprocess.Popen[bytes] | None = None
        self.start_seconds = 0.0

    def start(self) -> None:
        """Start the service and wait until the roles are ready."""
        began = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hookline.cli.main", "up", *self._options()],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for port in (self.collect_port, self.control_port):
            self._wait_until_ready(port)
        self.start_seconds = time.monotonic() - began

    def stop(self) -> None:
        """End the service; kill what does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def processes(self) -> dict[str, int]:
        """Process ids by role, the supervisor included."""
        assert self._process is not None
        found = {"supervisor": self._process.pid}
        output = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
        for line in output.stdout.splitlines():
            pid, parent, arguments = line.split(None, 2)
            if int(parent) == self._process.pid:
                found.update({role: int(pid) for role in ROLES if f"hookline.cli.main {role}" in arguments})
        return found

    def events_accepted(self) -> int:
        """The journal's durable end, summed over partitions."""
        from hookline.journal.local.reader import LocalReader

        reader = LocalReader(self.folder / "data" / "journal")
        try:
            return sum(reader.end(partition) for partition in reader.partitions())
        finally:
            reader.close()

    def _options(self) -> list[str]:
        return [
            "--data-dir=data",
            f"--collect.listen=127.0.0.1:{self.collect_port}",
            f"--control.listen=127.0.0.1:{self.control_port}",
            "--deliver.allow-networks=127.0.0.0/8",
            "--deliver.retry-max=2s",
        ]

    def _wait_until_ready(self, port: int) -> None:
        deadline = time.monotonic() + START_WAIT_SECONDS
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            try:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.005)
        self.stop()
        raise RuntimeError(f"the service did not become ready:\n{(self.folder / 'log').read_text()[-2000:]}")


def free_port(besides: int = 0) -> int:
    """A port nothing listens on, below those that systems give to outgoing connections: it stays free."""
    for port in random.sample(PORTS, 200):
        if port == besides:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 20000 and 32000; stop what holds them")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}


def _connections(receiver_port: int) -> str:
    return json.dumps(  # JSON is YAML
        {
            "sources": [{"id": "bench", "name": "Bench", "type": "server", "enabled": True, "writeKeys": [WRITE_KEY]}],
            "destinations": [
                {
                    "id": "receiver",
                    "name": "Receiver",
                    "kind": "webhook",
                    "sources": ["bench"],
                    "enabled": True,
                    "settings": {
                        "webhooks": [{"url": f"http://127.0.0.1:{receiver_port}/hook"}],
                        "sharedSecret": SECRET,
                    },
                }
            ],
        }
    )
