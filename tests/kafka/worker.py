"""One more ``hookline deliver`` beside those that ``up`` runs, as if it were on another machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.service.harness import Hookline

GONE_SECONDS = 60.0


class Worker:
    """A process in a folder of its own, with the settings of ``front`` but its data folder."""

    def __init__(self, folder: Path, front: Hookline, environment: Mapping[str, str]) -> None:
        self.log = folder / "log"
        folder.mkdir()
        settings = {**front.settings, "data_dir": str(folder / "data")}
        flags = [f"--{key}={','.join(value) if isinstance(value, list) else value}" for key, value in settings.items()]
        self._command = [sys.executable, "-m", "hookline.cli.main", "deliver", *flags]
        self._environment = {**os.environ, **environment}
        self.start()

    def start(self) -> None:
        """Start it, again where it has ended."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=self.log.parent, stdout=log, stderr=log, env=self._environment
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait until the process is gone."""
        self.process.send_signal(how)
        self.process.wait(GONE_SECONDS)
