"""Whether every role of this machine works: what ``/readyz?all`` answers, and a notice tells when it lasts.

A role works while it reports, and reports no trouble. One that stands by for another machine's works too. Which roles
there ought to be is the supervisor's to say; of roles started alone, those count that have once reported here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hookline.features.fleet.metrics import RoleMetrics, RoleReport
from hookline.roles import SUPERVISOR_FD, wanted
from hookline.telemetry.metrics import PROCESS_ID, PROCESS_STANDING_BY, PROCESS_TROUBLES

REPORT_SECONDS_MAX = 10.0
"""A report that is older says nothing: roles write one a second, and profiles after each batch."""
KEPT_SECONDS = 0.5
"""What was found is answered again for so long, however many ask."""
WORKING = "working"
STANDING_BY = "standing_by"
NOT_REPORTING = "not_reporting"


def asks_for_all(query: bytes) -> bool:
    """Return whether the query of ``/readyz`` asks for the whole machine."""
    return any(part.partition(b"=")[0] == b"all" for part in query.split(b"&"))


class Whole(msgspec.Struct, frozen=True):
    """``status`` is ``ready`` or ``not_ready``; ``roles`` says of each that it works, stands by, or what keeps it."""

    status: str
    roles: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Return whether every role works."""
        return self.status == "ready"


class WholeMachine:
    """Looks at the reports of the roles in a data folder."""

    def __init__(
        self,
        data_path: Path,
        metrics: RoleMetrics,
        is_supervised: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``is_supervised`` is by default whether this process is."""
        self._folder = str(data_path)
        self._metrics = metrics
        self._is_supervised = SUPERVISOR_FD in os.environ if is_supervised is None else is_supervised
        self._clock = clock
        self._kept: tuple[float, Mapping[str, str]] | None = None

    def roles(self) -> tuple[str, ...]:
        """Return the roles that a supervisor runs here; none where each is started by itself."""
        return wanted(self._folder) if self._is_supervised else ()

    def look(self, own: str) -> Whole:
        """Return how the roles are; ``own`` is what control, which asks, says of itself."""
        now = time.monotonic()
        if self._kept is None or now - self._kept[0] >= KEPT_SECONDS:
            reports = self._metrics.reports()
            names = dict.fromkeys((*self.roles(), *reports))
            self._kept = now, {name: self._state(reports.get(name)) for name in names}
        roles = {**self._kept[1], "control": own}
        is_ready = all(state in (WORKING, STANDING_BY) for state in roles.values())
        return Whole("ready" if is_ready else "not_ready", roles)

    def _state(self, report: RoleReport | None) -> str:
        if report is None or self._clock() - report.at_seconds > REPORT_SECONDS_MAX or self._has_ended(report):
            return NOT_REPORTING
        troubles = report.values.get(PROCESS_TROUBLES)
        if isinstance(troubles, list) and troubles:
            return str(troubles[0])
        return STANDING_BY if report.number(PROCESS_STANDING_BY) else WORKING

    def _has_ended(self, report: RoleReport) -> bool:
        """Return whether the process that wrote it is gone, as between two starts of a role that ends again and
        again."""
        if not self._is_supervised:
            return False  # it may be in a container of its own, where its number means nothing here
        try:
            os.kill(int(report.number(PROCESS_ID)) or os.getpid(), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False
