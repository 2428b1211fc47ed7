"""How much the reader of schemas leaves to others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import count

import pytest

from hookline.features.sources import service
from hookline.features.sources.service import CROWDED_REST_SECONDS, IDLE_SECONDS, REST_SECONDS, schema_watcher
from hookline.insights.schema import RECORDS_TOGETHER
from tests.service.waiting import wait_until
from tests.unit.control.running import Running, record, source


@pytest.mark.parametrize(("waited", "rest"), [(0.0, REST_SECONDS), (0.02, CROWDED_REST_SECONDS)])
def test_it_rests_longer_while_others_want_the_core(
    control: Running, monkeypatch: pytest.MonkeyPatch, waited: float, rest: float
) -> None:
    """With more to read, by how long it was kept from its core; when all is read, until something comes."""
    control.api("POST", "/sources", source())
    watch = schema_watcher(control.services)
    watch.run_once()
    control.append(*(record(f"m{n}", "Order") for n in range(RECORDS_TOGETHER)))
    control.append(record("last", "Order"))
    seen = count()
    monkeypatch.setattr(watch._reader, "_clock", lambda: float(next(seen)))  # each look comes after the time is over
    moments = iter([1.0, 1.0 + waited] * 3)
    monkeypatch.setattr(service, "_kept_waiting_seconds", lambda: next(moments))
    # The second goes to where the journal ended when the first began.
    assert [watch._read() for _ in range(3)] == [rest, rest, IDLE_SECONDS]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_what_a_thread_waits_for_its_core_is_known() -> None:
    """A thread that shares one core with somebody busy is kept waiting."""
    core = min(os.sched_getaffinity(0))
    pinned = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    busy = subprocess.Popen(pinned)
    found: list[float] = []

    def share_the_core() -> None:
        os.sched_setaffinity(0, {core})
        begin = service._kept_waiting_seconds()

        def has_waited() -> bool:
            sum(range(100_000))
            return service._kept_waiting_seconds() > begin

        wait_until(has_waited)
        found.append(begin)

    try:
        thread = threading.Thread(target=share_the_core)
        thread.start()
        thread.join()
    finally:
        busy.kill()
        busy.wait()
    assert found
