"""A real service for the benchmark, in a folder and on ports of its own: started, looked at, killed, and stopped."""

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
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hookline.bench.event import one_receiver
from hookline.bench.machine import processes, wait_until

START_WAIT_SECONDS = 30.0
STOP_WAIT_SECONDS = 15.0
ADMIN_WAIT_SECONDS = 60.0
"""Control loads its API at the first call, on a busy machine for many seconds."""
ROLES = ("collect", "deliver", "profiles", "control")
PORTS = range(20_000, 32_000)
HELD_MAX = 200
_held: deque[socket.socket] = deque()


class Service:
    """``hookline up`` with one source and one signed webhook destination, or with the connections that are given.

    ``settings`` may be changed before a start; ``within`` is a command that runs it in surroundings of its own.
    """

    def __init__(
        self,
        folder: Path,
        connections: int | Mapping[str, Any],
        *,
        settings: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        data: Path | None = None,
    ) -> None:
        self.folder = folder
        self.data = data or folder / "data"
        self.collect_port = free_port()
        self.control_port = free_port(besides=self.collect_port)
        self.environment: dict[str, str] = {}
        folder.mkdir(parents=True)
        (folder / "hookline.yaml").write_text("{}\n")
        self.connect(one_receiver(connections) if isinstance(connections, int) else connections)
        self.settings = {
            "data-dir": str(self.data),
            "collect.listen": f"127.0.0.1:{self.collect_port}",
            "control.listen": f"127.0.0.1:{self.control_port}",
            "deliver.allow-networks": "127.0.0.0/8",
            "deliver.retry-max": "2s",
            **(settings or {}),
        }
        self._within = tuple(within)
        self._process: subprocess.Popen[bytes] | None = None
        self.start_seconds = 0.0

    def connect(self, connections: Mapping[str, Any]) -> None:
        """Write the connections file; a service that runs takes it with ``apply``."""
        (self.folder / "connections.yaml").write_text(json.dumps(connections))  # JSON is YAML

    def apply(self) -> None:
        """Have a running service take the connections file as it is now."""
        command = [sys.executable, "-P", "-m", "hookline.cli.main", "apply", "--data-dir", str(self.data)]
        api = ["--api", f"http://127.0.0.1:{self.control_port}"]
        done = subprocess.run(
            [*command, *api, "connections.yaml"],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"apply failed: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start the service and wait until the roles are ready; when that fails or is ended, nothing is left."""
        began = time.monotonic()
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - began

    def launch(self) -> None:
        """Start the service without waiting for anything."""
        flags = [f"--{name}={value}" for name, value in self.settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, sys.executable, "-P", "-m", "hookline.cli.main", "up", *flags],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until collect and control answer that they are ready."""
        for port in (self.collect_port, self.control_port):
            self._wait_until_ready(port)

    def kill(self) -> None:
        """kill -9 of the whole process group at once; returns when every process of it is gone."""
        if self._process is None:
            return
        group = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_until(lambda: not _alive(group), STOP_WAIT_SECONDS, "killed processes gone")

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
        for process in processes():
            if process.parent == self._process.pid:
                found.update({role: process.pid for role in ROLES if f"hookline.cli.main {role}" in process.arguments})
        return found

    def events_accepted(self) -> int:
        """Return the journal's durable end, summed over partitions."""
        from hookline.journal.opening import open_reader

        reader = open_reader(self.data / "journal")
        try:
            return sum(reader.end(partition) for partition in reader.partitions())
        finally:
            reader.close()

    @property
    def log(self) -> str:
        """Everything the processes printed so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def running(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples."""
        lines = self._admin("GET", "/metrics").decode().splitlines()
        samples = [line.rpartition(" ") for line in lines if line.partition("{")[0].partition(" ")[0] == name]
        return sum(float(value) for _, _, value in samples)

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the admin API and return the answer's JSON; RuntimeError when it refuses."""
        content = self._admin(method, f"/api/v1/{path}", None if body is None else json.dumps(body))
        return json.loads(content) if content else None

    def _admin(self, method: str, path: str, body: str | None = None) -> bytes:
        token = (self.data / "admin-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.control_port, timeout=ADMIN_WAIT_SECONDS)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode(errors='replace')}")
        return content

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
        return {**inherited, **self.environment}

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
        ended = self._process and self._process.poll()
        self.stop()
        why = f"not within {START_WAIT_SECONDS:g} s" if ended is None else f"it ended with {ended}"
        raise RuntimeError(f"the service did not become ready on port {port}, {why}:\n{self.log[-2000:]}")


def hold(port: int) -> socket.socket | None:
    """Return a socket on a loopback port that nobody has; None when somebody has it.

    It does not listen, so connections are refused. It shares the port with servers, which set SO_REUSEADDR before they
    bind, and not with others that look for a free one: they bind without, as this does.
    """
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return None
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def free_port(besides: int = 0) -> int:
    """Return a port nothing listens on, below those that systems give to outgoing connections: it stays free."""
    for port in random.sample(PORTS, 200):
        holder = None if port == besides else hold(port)
        if holder is None:
            continue
        _held.append(holder)
        if len(_held) > HELD_MAX:
            _held.popleft().close()
        return port
    raise RuntimeError("no free port between 20000 and 32000; stop what holds them")


def _alive(group: int) -> bool:
    return any(process.group == group and process.state[0] not in "ZX" for process in processes())
