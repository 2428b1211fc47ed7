"""What the roles count: each writes ``run/metrics-<role>.json`` once a second, this reads them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

FRESH_SECONDS = 5.0
FILE_BYTES_MAX = 16 * 1024 * 1024


class RoleReport(NamedTuple):
    """The last report of one role; ``fresh`` is whether it is recent enough to say that the role runs."""

    role: str
    fresh: bool
    values: Mapping[str, Any]
    at_seconds: float = 0.0
    """When it was written, since the epoch."""

    def number(self, name: str) -> float:
        """Return a metric's value, summed over its label's values; 0 when it was not reported."""
        value = self.values.get(name, 0)
        if isinstance(value, dict):
            return sum(self.by_label(name).values())
        return value if isinstance(value, int | float) else 0

    def by_label(self, name: str) -> dict[str, float]:
        """Return the values of a metric with a label."""
        value = self.values.get(name)
        inner: dict[str, Any] = next(iter(value.values()), {}) if isinstance(value, dict) else {}
        return {key: each for key, each in inner.items() if isinstance(each, int | float)}


class RoleMetrics:
    """Reads the reports in the run folder."""

    def __init__(self, data_path: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = data_path / "run"
        self._clock = clock

    def reports(self) -> dict[str, RoleReport]:
        """Return every report there is, by role."""
        found: dict[str, RoleReport] = {}
        for path in sorted(self._folder.glob("metrics-*.json")):
            report = self._read(path)
            if report is not None:
                found[report.role] = report
        return found

    def _read(self, path: Path) -> RoleReport | None:
        try:
            at_seconds = path.stat().st_mtime
            with path.open("rb") as file:
                values = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return None  # being replaced, or of a version that wrote it otherwise: the next second brings another
        return RoleReport(
            path.stem.removeprefix("metrics-"), self._clock() - at_seconds <= FRESH_SECONDS, values, at_seconds
        )
