"""One service for all SDKs, and the runs of their programs against it.

Every SDK has a source of its own. Most of the SDKs' clocks are an hour behind, so that the correction of times is seen.
A run is made once, whoever asks for it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

from tests.service.deliver.certificates import Authority
from tests.service.harness import Hookline, Receiver, Request, wait_until, webhook
from tests.service.sdks.every_sdk import SDKS
from tests.service.sdks.said import CALLS_FILE, NOT_ROUTED, SAID, body_of, differences, name_of, said_by
from tests.service.sdks.sdk import SDK
from tests.service.sdks.tap import Connection, Tap
from tests.service.sdks.visit import Visit, launch, visit
from tests.service.sdks.website import Website
from tests.service.sdks.wire import Message

BEHIND = timedelta(hours=1)
PROGRAM_SECONDS = 480
FINAL = ("delivered", "not_routed")
SECRET = "field-secret"


@dataclass(frozen=True)
class Run:
    """What one SDK did: its connections, the events in them by name, and what the receiver got."""

    sdk: SDK
    connections: list[Connection]
    events: dict[str, dict[str, Any]]
    """As posted, with context, integrations and sentAt of their batch merged in."""
    posted: int
    """How many events were posted, repeated ones counted again."""
    received: dict[str, Request]
    statuses: dict[str, dict[str, Any]]
    visit: Visit | None
    """Set when the SDK is one for browsers."""

    @property
    def posts(self) -> list[Message]:
        """The requests that carried events."""
        return [post for connection in self.connections for post in connection.posts]

    def differences(self, name: str) -> dict[str, str]:
        """Where what arrived, or the posted ``integrations``, is not as it was said; time and library set aside."""
        said = SAID[name]
        found = differences(body_of({"context": {}} | said), self.received[name].json)
        if not said.get("integrations", {}).items() <= (self.events[name].get("integrations") or {}).items():
            found["integrations"] = "missing"
        if found.get("context.ip") == "added":
            del found["context.ip"]  # by the service, for browsers
        return {path: kind for path, kind in found.items() if path not in ("timestamp", "context.library")}


class Field:
    """A context manager that starts the service; ``run`` gives the run of an SDK."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._runs: dict[str, Run | None] = {}
        self._browser: Browser | None = None

    def __enter__(self) -> Field:
        self._authority = Authority(self._folder)
        self.receiver = self._stack.enter_context(Receiver())
        sources = [{"id": sdk.id, "name": sdk.id, "type": "server", "writeKeys": [_key(sdk)]} for sdk in SDKS]
        crm = webhook("crm", self.receiver.url(), secret=SECRET, sources=[sdk.id for sdk in SDKS])
        service = Hookline(self._folder / "h", [crm], sources=sources)
        self.hookline = self._stack.enter_context(service)
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)

    def run(self, sdk: SDK, loses_an_answer: bool = False) -> Run:
        """What the SDK did, or what its recorded requests did where the SDK itself could not be installed."""
        name = f"{sdk.id}, loses_an_answer={loses_an_answer}"
        if name not in self._runs:
            self._runs[name] = None
            self._runs[name] = self._live(sdk, loses_an_answer) if sdk.is_installed else self._recorded(sdk)
        run = self._runs[name]
        assert run is not None, f"{name}: failed before"
        return run

    def record(self, sdk: SDK) -> None:
        """Keep what the SDK wrote on the wire, for machines where it cannot be installed."""
        shutil.rmtree(sdk.recording, ignore_errors=True)
        sdk.recording.mkdir(parents=True)
        for number, connection in enumerate(self.run(sdk).connections):
            (sdk.recording / f"{number}.http").write_bytes(connection.sent)

    def _recorded(self, sdk: SDK) -> Run:
        with Tap(self.hookline.collect_port) as tap:
            _play(sdk, tap)
            return self._result(sdk, tap, None)

    def _live(self, sdk: SDK, loses_an_answer: bool) -> Run:
        with self.tap(sdk, loses_an_answer) as tap:
            if sdk.page:
                return self._result(sdk, tap, self._visit(sdk, tap))
            self._start(sdk, tap)
            return self._result(sdk, tap, None)

    def tap(self, sdk: SDK, loses_an_answer: bool = False) -> Tap:
        """The wire for this SDK."""
        tls = self._authority.server() if sdk.tls else None
        return Tap(self.hookline.collect_port, sdk.port, tls, loses_an_answer=loses_an_answer)

    def environment(self, sdk: SDK, tap: Tap) -> dict[str, str]:
        """What a program with this SDK needs to know."""
        authority = str(self._authority.file)
        return {
            **os.environ,
            **sdk.environment,
            "CALLS": str(CALLS_FILE),
            "CURL_CA_BUNDLE": authority,
            "HOST": tap.url if sdk.scheme else tap.host,
            "PORT": str(tap.port),
            "SSL_CERT_FILE": authority,
            "WRITE_KEY": _key(sdk),
        }

    def command(self, words: Sequence[str]) -> list[str]:
        """The command with the file of our certificate authority in it."""
        return [word.replace("{CA}", str(self._authority.file)) for word in words]

    def _start(self, sdk: SDK, tap: Tap) -> None:
        done = subprocess.run(
            self.command(sdk.command),
            env=self.environment(sdk, tap) | ({} if sdk.has_true_clock else _clock()),
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _visit(self, sdk: SDK, tap: Tap) -> Visit:
        if self._browser is None:
            self._browser = launch(self._stack.enter_context(sync_playwright()))
        with Website(tap.url, _key(sdk)) as site:
            url, all_told = f"{site.origin}/{sdk.page}", lambda: len(_names(tap)) == len(said_by(sdk))
            seen = visit(self._browser, url, all_told, sdk.told_when_left, BEHIND)
            seen.hosts -= {urlsplit(site.origin).netloc, tap.host, ""}
        return seen

    def _result(self, sdk: SDK, tap: Tap, seen: Visit | None) -> Run:
        wait_until(lambda: len(_names(tap)) == len(said_by(sdk)), what=f"all calls of {sdk.id} on the wire")
        posted = _events(tap)
        events = {name_of(event): event for event in posted}
        ids = {name: event["messageId"] for name, event in events.items()}
        received = {name: self.receiver.wait_for(ids[name])[-1] for name in events if name != NOT_ROUTED}
        found = wait_until(lambda: self._statuses(sdk, set(ids.values())), what=f"the statuses of {sdk.id}") or {}
        statuses = {name: found[id] for name, id in ids.items()}
        return Run(sdk, tap.connections, events, len(posted), received, statuses, seen)

    def _statuses(self, sdk: SDK, ids: set[str]) -> dict[str, dict[str, Any]] | None:
        """Each event's, None while one is open."""
        events = self.hookline.api("GET", f"events?source={sdk.id}&limit=100").json["items"]
        found = {event["messageId"]: event for event in events if event["messageId"] in ids}
        done = [part["status"] in FINAL for event in found.values() for part in event["destinations"]]
        return found if len(done) == len(ids) and all(done) else None


def _key(sdk: SDK) -> str:
    return f"wk_{sdk.id}"


def _clock() -> dict[str, str]:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    assert library, "scripts/test-needs.sh installs faketime"
    behind = f"-{BEHIND.total_seconds():.0f}s"
    return {"LD_PRELOAD": str(library), "FAKETIME": behind, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _play(sdk: SDK, tap: Tap) -> None:
    """Say what the SDK said when it was recorded."""
    for file in sorted(sdk.recording.glob("*.http")):
        with socket.create_connection(("127.0.0.1", tap.port)) as connection:
            connection.sendall(file.read_bytes())
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass


def _names(tap: Tap) -> set[str]:
    return {name_of(event) for event in _events(tap)}


def _events(tap: Tap) -> list[dict[str, Any]]:
    return [event for connection in tap.connections for event in connection.events]
