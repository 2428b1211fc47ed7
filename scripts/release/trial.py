"""Try what was built in a clean environment that does not know this repository.

The service is installed from its wheel with the locked dependencies, hashes checked, and started as the README says.
Then each library that was built sends an event to it, the events are looked for, and doctor is asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.release.packages import COMPOSER_PACKAGE, GO_MODULE, go, go_environment, run, tool, uv
from scripts.release.versions import ROOT, version

PORTS = {"HOOKLINE_COLLECT_LISTEN": "127.0.0.1:18480", "HOOKLINE_CONTROL_LISTEN": "127.0.0.1:18481"}
WAIT_SECONDS = 120.0
PYTHON_PROGRAM = """
import sys
from hookline_client import Client
with Client(sys.argv[1], endpoint=sys.argv[2]) as client:
    client.track("u1", "Signed Up", message_id="from-python")
"""
GO_PROGRAM = """package main

import (
	"os"

	hookline "github.com/hookline/hookline-go"
)

func main() {
	client := hookline.New(os.Args[1])
	client.Endpoint = os.Args[2]
	if err := client.Track(&hookline.Track{UserId: "u1", Event: "Signed Up", MessageId: "from-go"}); err != nil {
		panic(err)
	}
	if err := client.Close(); err != nil {
		panic(err)
	}
}
"""
PHP_PROGRAM = """<?php
require 'vendor/autoload.php';
Hookline\\Hookline::init($argv[1], ['endpoint' => $argv[2]]);
Hookline\\Hookline::track(['userId' => 'u1', 'event' => 'Signed Up', 'messageId' => 'from-php']);
Hookline\\Hookline::flush();
"""


class Installation:
    """A service in an environment of its own, and a folder to work in that is not this repository's."""

    def __init__(self, dist: Path, folder: Path, ports: dict[str, str] | None = None) -> None:
        self.dist = dist.resolve()
        self.folder = folder.resolve()
        self.bin = self.folder / "environment/bin"
        self.ports = ports or PORTS
        self.collect, self.control = (f"http://{listen}" for listen in self.ports.values())
        kept = {
            name: os.environ[name] for name in ("LANG", "SSL_CERT_FILE", "UV_CACHE_DIR", "HOME") if name in os.environ
        }
        self.environment = {**kept, **self.ports, "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin"}
        self.write_key = ""

    def install(self) -> None:
        """Install the wheels, and what they need as locked."""
        python = ["--python", self.bin / "python"]
        more = {"UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy", "PYTHONPATH": ""}
        run([uv(), "venv", "--quiet", "--python", ROOT / ".venv/bin/python", self.bin.parent], self.folder, more)
        lock = ROOT / "requirements.lock"
        run([uv(), "pip", "install", "--quiet", *python, "--require-hashes", "-r", lock], self.folder, more)
        wheels = sorted(self.dist.glob("*.whl"))
        run([uv(), "pip", "install", "--quiet", *python, "--no-deps", "--no-index", *wheels], self.folder, more)

    @contextmanager
    def started(self) -> Iterator[None]:
        """Start the service as the README says, and end it as Ctrl-C does; its exit must be a clean one."""
        log = self.folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.bin / "hookline", "up", "--quickstart"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_for_welcome(log, process)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(WAIT_SECONDS)
        if code not in (0, 130):
            raise RuntimeError(f"hookline up ended with {code}: {log.read_text()[-2000:]}")

    def _wait_for_welcome(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (said := re.search(r"Write key  (\S+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"hookline up did not get ready: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        self.write_key = said[1]

    def hookline(self, *words: str) -> str:
        """Run a command of the installed package and return what it prints."""
        return self.run([self.bin / "hookline", *words])

    def run(self, command: Sequence[object], folder: Path | None = None, **more: str) -> str:
        """Run a program in the environment of the installation alone."""
        words, environment = [str(word) for word in command], {**self.environment, **more}
        done = subprocess.run(words, cwd=folder or self.folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {(done.stdout + done.stderr).strip()[-2000:]}")
        return done.stdout

    def outside(self) -> list[str]:
        """Return the modules of ours that come from anywhere else than the environment."""
        program = "import hookline, hookline_client; print(hookline.__file__); print(hookline_client.__file__)"
        places = self.run([self.bin / "python", "-c", program]).splitlines()
        return [place for place in places if not Path(place).is_relative_to(self.bin.parent)]

    def send_from_python(self) -> None:
        """Send an event through the installed client."""
        self.run([self.bin / "python", "-c", PYTHON_PROGRAM, self.write_key, self.collect])

    def send_from_go(self) -> None:
        """Send one from a program that gets the module from a proxy: the folder that was built."""
        folder = self.folder / "go"
        folder.mkdir()
        (folder / "main.go").write_text(GO_PROGRAM)
        (folder / "go.mod").write_text(f"module example.com/trial\n\ngo 1.22\n\nrequire {GO_MODULE} v{version()}\n")
        environment = {**go_environment(self.folder), "GOPROXY": f"file://{self.dist / 'go'}", "GOFLAGS": "-mod=mod"}
        environment["GOCACHE"] = os.environ.get("GOCACHE", str(self.folder / "go-cache"))
        for words in (["vet", "./..."], ["mod", "verify"], ["build", "-o", "trial", "."]):
            self.run([go(), *words], folder, **environment)
        self.run([folder / "trial", self.write_key, self.collect])
        self.run([go(), "clean", "-modcache"], folder, **environment)

    def send_from_php(self) -> None:
        """Send one from a program that Composer installed the archive for."""
        folder = self.folder / "php"
        folder.mkdir()
        archive = self.dist / f"{COMPOSER_PACKAGE.partition('/')[2]}-{version()}.zip"
        shutil.unpack_archive(archive, folder / "unpacked")
        (package,) = (folder / "unpacked").iterdir()
        described = json.loads((package / "composer.json").read_text())
        described |= {"version": version(), "dist": {"type": "zip", "url": archive.as_uri()}}
        wanted = {"require": {COMPOSER_PACKAGE: version()}}
        repositories = [{"type": "package", "package": described}, {"packagist.org": False}]
        (folder / "composer.json").write_text(json.dumps({**wanted, "repositories": repositories}))
        home = str(self.folder / "composer")
        composer = [tool("composer"), "install", "--no-interaction", "--quiet"]
        self.run(composer, folder, COMPOSER_HOME=home, COMPOSER_ALLOW_SUPERUSER="1")
        (folder / "send.php").write_text(PHP_PROGRAM)
        self.run([tool("php"), "send.php", self.write_key, self.collect], folder)

    def check(self, messages: list[str]) -> None:
        """Check that the events are there, that a page is served, and that doctor finds nothing that fails."""
        for message in messages:
            self._wait_for_event(message)
        with urllib.request.urlopen(self.control, timeout=WAIT_SECONDS) as answer:
            if answer.status != 200 or b"<!doctype html>" not in answer.read().lower():
                raise RuntimeError("no page at the control port")
        self.hookline("doctor")

    def _wait_for_event(self, message: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.hookline("why", message)
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise


def try_packages(
    dist: Path, folder: Path, senders: tuple[str, ...] = ("python", "go", "php"), ports: dict[str, str] | None = None
) -> None:
    """Try what lies in ``dist`` in an empty folder; RuntimeError says what does not work."""
    tried = Installation(dist, folder, ports)
    tried.install()
    if outside := tried.outside():
        raise RuntimeError(f"imported from outside the environment: {', '.join(outside)}")
    with tried.started():
        for sender in senders:
            getattr(tried, f"send_from_{sender}")()
        tried.check([f"from-{sender}" for sender in senders])
