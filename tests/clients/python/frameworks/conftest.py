"""One Hookline and one receiver for all framework tests, and the examples run as their users run them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Request, free_port, wait_until, webhook

EXAMPLES = ROOT / "examples" / "clients"
STOP_SECONDS = 60.0


class Shop:
    """An example as a process of its own; ``port`` is where it listens, if it does."""

    def __init__(self, folder: Path, hookline: Hookline) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")},
            "HOOKLINE_CLIENT_WRITE_KEY": WRITE_KEY,
            "HOOKLINE_CLIENT_ENDPOINT": f"http://127.0.0.1:{hookline.collect_port}",
            "HOOKLINE_CLIENT_EXIT_TIMEOUT": "30",
            "PYTHONPATH": str(EXAMPLES),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, *command: str) -> str:
        """Run a command to its end and return what it printed; it must succeed."""
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=STOP_SECONDS,
        ).stdout

    def start(self, *command: str) -> None:
        """Start a server."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def serve(self, *command: str) -> None:
        """Start a web server and wait until it takes connections."""
        self.start(*command)
        wait_until(lambda: "Listening at" in self.log or "running on" in self.log, what="the server")

    def stop(self) -> None:
        """SIGTERM, as an operator would, and wait for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_SECONDS)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
        """GET a page: its JSON, and the cookies to send with the next."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30.0)
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, (body, self.log)
        cookies = [value.partition(";")[0] for name, value in response.getheaders() if name.lower() == "set-cookie"]
        connection.close()
        return json.loads(body), "; ".join(cookies)

    @property
    def log(self) -> str:
        """What the server printed."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


@pytest.fixture(scope="package")
def arrivals() -> Iterator[Receiver]:
    """Where all events end up."""
    with Receiver() as running:
        yield running


@pytest.fixture(scope="package")
def hookline(arrivals: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """The service that all examples send to."""
    with Hookline(tmp_path_factory.mktemp("hookline"), [webhook("crm", arrivals.url())]) as running:
        yield running


@pytest.fixture
def shop(hookline: Hookline, tmp_path: Path) -> Iterator[Shop]:
    """A folder for an example; its process is stopped at the end."""
    made = Shop(tmp_path, hookline)
    yield made
    made.stop()


@pytest.fixture
def bodies_of(arrivals: Receiver) -> Callable[[Sequence[str]], list[dict[str, Any]]]:
    """Wait until these messages arrived, each once, and return their bodies in this order."""

    def find(message_ids: Sequence[str]) -> list[dict[str, Any]]:
        found: list[Request] = []
        for message_id in message_ids:
            (request,) = arrivals.wait_for(message_id)
            found.append(request)
        return [dict(request.json) for request in found]

    return find
