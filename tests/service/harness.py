"""The service under test: the real ``hookline up`` in a folder of its own, started, killed and asked from outside.

Everything goes through the fixed surfaces (settings and connections files, the two ports, signals); nothing of the
product is imported. ``Receiver``, ``Answer`` and ``wait_until`` are offered here too, so that a test needs one import.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hookline.bench.service import free_port
from tests.service.client import Answer, basic, bearer, send
from tests.service.receiver import Receiver, Reply, Request
from tests.service.waiting import WAIT_SECONDS, holds_for, wait_until

__all__ = [
    "Answer",
    "Hookline",
    "Receiver",
    "Reply",
    "Request",
    "free_port",
    "holds_for",
    "new_id",
    "wait_until",
    "webhook",
]

READY_SECONDS = 240.0
STOP_SECONDS = 120.0
REPORT_SECONDS = 40.0
"""Far more than it takes: a busy machine is no failure. Tests that are about the time say their own."""
WRITE_KEY = "wk_site"
SOURCE = {"id": "site", "name": "Site", "type": "server", "writeKeys": [WRITE_KEY]}
COMMAND = (sys.executable, "-m", "hookline.cli.main", "up")


def new_id(prefix: str = "m") -> str:
    """A messageId nobody used before."""
    return f"{prefix}-{uuid.uuid4().hex}"


def webhook(
    destination: str,
    *urls: str,
    sources: Sequence[str] = ("site",),
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A webhook destination as connections.yaml and the API write it."""
    settings: dict[str, Any] = {"webhooks": [{"url": url, "headers": dict(headers or {})} for url in urls]}
    if secret is not None:
        settings["sharedSecret"] = secret
    return {"id": destination, "name": destination, "sources": list(sources), "settings": settings, **more}


class Hookline:
    """One installation: ``folder`` holds its files and its data. A context manager that starts and stops it."""

    def __init__(
        self,
        folder: Path,
        destinations: Sequence[Mapping[str, Any]] = (),
        *,
        sources: Sequence[Mapping[str, Any]] = (SOURCE,),
        definitions: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.collect_port = free_port()
        self.control_port = free_port()
        self.environment = dict(environment or {})
        self.settings: dict[str, Any] = {
            "data_dir": str(self.data),
            "collect.listen": f"127.0.0.1:{self.collect_port}",
            "control.listen": f"127.0.0.1:{self.control_port}",
            "deliver.allow_networks": ["127.0.0.0/8", "::1/128"],
            "deliver.retry_first": "100ms",
            **(settings or {}),
        }
        self.sources = list(sources)
        self.destinations = list(destinations)
        self.definitions = dict(definitions or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._command = tuple(command)

    def __enter__(self) -> Hookline:
        return self.start()

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self.stop()
        else:  # the test already failed: do not hide why behind a slow stop
            self.kill9()

    def launch(self, log: int | None = None) -> subprocess.Popen[bytes]:
        """Write the files and start the process without waiting for anything; ``log`` takes what it prints, by default
        a file beside its settings."""
        config, connections = self.write_files()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOOKLINE_")}
        with (self.folder / "log").open("ab") as file:
            self.process = subprocess.Popen(
                [*self._command, "--config", str(config), "--connections", str(connections)],
                cwd=self.folder,
                env={**inherited, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=file if log is None else log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    def start(self) -> Hookline:
        """Start and wait until both ports say they are ready."""
        self.launch()
        self.wait_ready()
        return self

    def write_files(self) -> tuple[Path, Path]:
        """Write the settings and the connections; return where they are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config, connections = self.folder / "hookline.yaml", self.folder / "connections.yaml"
        config.write_text(json.dumps(_nested(self.settings)))  # JSON is YAML
        connections.write_text(
            json.dumps({"sources": self.sources, "destinations": self.destinations, **self.definitions})
        )
        return config, connections

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until collect and control answer 200 on /readyz."""
        deadline = time.monotonic() + seconds
        while not (is_ready(self.collect_port) and is_ready(self.control_port)):
            exited = self.process is None or self.process.poll() is not None
            if exited or time.monotonic() > deadline:
                raise AssertionError(
                    f"service {'exited' if exited else 'not ready'}; its log ends:\n{self.log[-4000:]}"
                )
            time.sleep(0.01)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, as an operator would; return the exit code. AssertionError when it takes longer."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"not stopped {seconds} s after SIGTERM; log ends:\n{self.log[-4000:]}") from None
        wait_until(lambda: not self.members(), what="children gone after the supervisor")
        return code

    def kill9(self) -> None:
        """SIGKILL the whole process group at once and wait until every process of it is gone."""
        assert self.process is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(WAIT_SECONDS)
        wait_until(lambda: not self.members(), what="killed processes gone")

    def restart(self) -> Hookline:
        """Stop if it runs, then start again on the same folder."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        return self.start()

    def members(self) -> dict[int, str]:
        """The living processes of the group: pid to command line."""
        assert self.process is not None
        return _group(self.process.pid)

    def role(self, name: str, required: bool = True) -> int:
        """The pid of a role's process (``collect``, ``deliver``, ``control``); 0 if not required and not there."""
        found = [pid for pid, line in self.members().items() if name in line.split()]
        assert found or not required, f"no {name} among {self.members()}"
        return found[0] if found else 0

    @property
    def log(self) -> str:
        """Everything the processes printed so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def admin_token(self) -> str:
        """The admin token that was given, else as the service made it up."""
        given = self.environment.get("HOOKLINE_CONTROL_ADMIN_TOKEN")
        return given or (self.data / "admin-token").read_text().strip()

    def post(
        self, path: str, body: object, key: str | None = WRITE_KEY, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """POST to the collection API with the write key as the SDKs send it."""
        return send(self.collect_port, "POST", path, body, {**(basic(key) if key else {}), **(headers or {})})

    def track(self, event: str = "Test", message_id: str | None = None, **fields: Any) -> str:
        """Send one track call, assert that it was acknowledged, return its messageId."""
        message_id = message_id or new_id()
        body = {"userId": "u1", "event": event, "messageId": message_id, **fields}
        answer = self.post("/v1/track", body)
        assert answer.status == 200, answer
        return message_id

    def api(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Call the admin API below /api/v1."""
        more = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        every = {**bearer(self.admin_token), **(more if body is not None else {}), **(headers or {})}
        return send(self.control_port, method, f"/api/v1/{path}", body, every)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples on /metrics, 0.0 while it has none.

        A role's values are not shown while its last report is old: a busy machine is given some seconds to report.
        """
        until = time.monotonic() + REPORT_SECONDS
        while True:
            answer = send(self.control_port, "GET", "/metrics", headers=bearer(self.admin_token))
            assert answer.status == 200, answer
            samples = [line.rpartition(" ") for line in answer.body.decode().splitlines() if not line.startswith("#")]
            values = [float(value) for key, _, value in samples if key.partition("{")[0] == name]
            silent = any(key.startswith("hookline_role_up") and float(value) == 0 for key, _, value in samples)
            if values or not silent or time.monotonic() > until:
                return sum(values)
            time.sleep(0.1)

    def event(self, message_id: str, source: str | None = None) -> dict[str, Any] | None:
        """The answer of ``why`` for an event, None while the service does not know it, or cannot ask its database: that
        a server is back is known to one connection after the other."""
        answer = self.api("GET", f"events/{quote(message_id, safe='')}" + (f"?source={source}" if source else ""))
        assert answer.status in (200, 404) or answer.json["code"] == "database_away", answer
        return dict(answer.json) if answer.status == 200 else None

    def status_at(self, message_id: str, destination: str) -> dict[str, Any]:
        """One destination's part of an event, an empty one while there is none."""
        return _part_of(self.event(message_id), destination)

    def came_too_often(self, arrived: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the (destination, messageId) that arrived more often than once and for each answer that came too
        late."""
        often = {pair: count for pair, count in Counter(arrived).items() if count > 1}
        events = {id: self.event(id) for id in {id for _, id in often}}

        def tries(destination: str, id: str) -> int:
            attempts = _part_of(events[id], destination).get("attempts", ())
            return 1 + sum(each["outcome"] == "timed_out" for each in attempts)

        return [pair for pair, count in often.items() if count > tries(*pair)]

    def wait_status(
        self,
        message_id: str,
        destination: str,
        status: str,
        seconds: float = WAIT_SECONDS,
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Wait until the event's status at the destination is ``status``, and for that ``reason``; return that
        destination's part."""
        last: dict[str, Any] = {}

        def reached() -> bool:
            last.clear()
            last.update(self.status_at(message_id, destination))
            return last.get("status") == status and reason in (None, last.get("reason"))

        try:
            wait_until(reached, seconds)
        except AssertionError as error:
            raise AssertionError(
                f"{message_id} at {destination}: wanted {status} ({reason}), is {last}: {error}"
            ) from None
        return last


def _part_of(event: Mapping[str, Any] | None, destination: str) -> dict[str, Any]:
    parts = () if event is None else event["destinations"]
    return next((dict(part) for part in parts if part["id"] == destination), {})


def fill_pipe(writing: int) -> None:
    """Write until it takes no more. How it waits is a matter of the open file, which the service has too: put back."""
    try:
        os.set_blocking(writing, False)
        while os.write(writing, b"x"):
            pass
    except BlockingIOError:
        pass
    finally:
        os.set_blocking(writing, True)


def is_ready(port: int, path: str = "/readyz") -> bool:
    """Return whether something answers that it is ready."""
    try:
        return send(port, "GET", path, seconds=2).status == 200
    except OSError:
        return False


def _nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in dotted.items():
        section, dot, name = key.partition(".")
        if dot:
            nested.setdefault(section, {})[name] = value
        else:
            nested[key] = value
    return nested


def _group(group: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state not in "ZX":
            found[int(entry.name)] = line.strip()
    return found
