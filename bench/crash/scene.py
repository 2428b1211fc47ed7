"""A service and a ledger that outlive all crashes: loaded, killed, started again, and balanced."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.crash.ledger import Ledger
from bench.crash.sender import WRITE_KEY
from hookline.bench.event import destination, source
from hookline.bench.machine import wait_until
from hookline.bench.service import Service

RECEIVERS = 2
"""Two, so that one may hang."""

BACK_SECONDS = 240.0
ENOUGH_EVENTS = 200
"""How many are acknowledged before and after a crash, at the least."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one kind of damage. ``not_run`` says why nothing did."""

    kind: str
    cycles: int = 0
    expected: int = 0
    lost: int = 0
    duplicates: int = 0
    in_doubt: int = 0
    """Acknowledged while the damage was being done, so that nobody can say whether before or after it."""
    restart_seconds: tuple[float, ...] = ()
    repeated_seconds: tuple[float, ...] = ()
    """By cut: how long before it the oldest of what was delivered again had been delivered."""
    remark: str = ""
    failures: tuple[str, ...] = ()
    not_run: str | None = None
    loses_on_purpose: bool = False


class Scene:
    """A context manager around the running service and its ledger, in a folder of its own unless one is given."""

    def __init__(
        self,
        rate: float,
        *,
        folder: Path | None = None,
        data: Path | None = None,
        within: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        receivers: int = RECEIVERS,
    ) -> None:
        self._temporary = TemporaryDirectory(prefix="hookline-bench-")
        self.folder = folder or Path(self._temporary.name)
        self.rate = rate
        self.restarts: list[float] = []
        self.ledger = Ledger(self.folder, receivers)
        self._data, self._within, self._settings = data, within, settings

    def __enter__(self) -> Scene:
        self.ledger.__enter__()
        names = [f"crm{number}" for number in range(len(self.ledger.sinks))]
        self.service = Service(
            self.folder / "service",
            {
                "sources": [source("site", WRITE_KEY)],
                "destinations": [
                    destination(name, sink.port, ["site"]) for name, sink in zip(names, self.ledger.sinks, strict=True)
                ],
            },
            settings={"deliver.retry-first": "100ms", **(self._settings or {})},
            within=self._within,
            data=self._data,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.service.kill()
        self.ledger.__exit__(None, None, None)
        self._temporary.cleanup()

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return self.service.data / "journal"

    def pid(self, role: str) -> int:
        """The process of a role; waits until there is one."""
        return wait_until(lambda: self.service.processes().get(role, 0), BACK_SECONDS, f"{role} is back")

    def start_load(self, padding_bytes: int = 100) -> None:
        """Send at the scene's rate from now on."""
        self.ledger.start_load(self.service.collect_port, int(self.rate), padding_bytes)

    def restart(self) -> None:
        """Start after a crash, and take down how long it took until the service was ready."""
        self.service.start()
        self.restarts.append(self.service.start_seconds)

    def wait_at_random(self, seconds_max: float) -> None:
        """Let a random time go by: the random moment itself, no synchronisation."""
        time.sleep(random.uniform(0, seconds_max))

    def stop_load_and_settle(self) -> None:
        """Let the sender finish, wait for what is missing, and stop, so that no late duplicate is missed."""
        self.ledger.more(ENOUGH_EVENTS)
        self.ledger.stop_load()
        self.ledger.settled()
        self.service.stop()

    def score(self, kind: str, cycles: int, **more: object) -> Score:
        """The ledger's balance."""
        balance = self.ledger.balance()
        fields = {
            "kind": kind,
            "cycles": cycles,
            "expected": balance.expected,
            "lost": len(balance.lost),
            "duplicates": balance.duplicates,
            "restart_seconds": tuple(self.restarts),
            **more,
        }
        return msgspec.convert(fields, Score)
