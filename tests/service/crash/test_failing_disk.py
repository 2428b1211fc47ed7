"""A disk that refuses a synchronisation or a write: strace injects the error into the real collect process.

A failed fsync must never be retried (the kernel may have dropped the pages): no acknowledgement may leave the process
after it, the process must end, and what the disk really holds must be enough.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.crash.ledger import Ledger
from bench.crash.strace import injecting

from tests.service.harness import Hookline, wait_until

CALLS = "fdatasync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg"

OK = "HTTP/1.1 200"

# name -> what strace is told; `when=30` fails one call only, so a retry would succeed and must not be tried.
FAULTS = {
    "one sync fails": "fdatasync:error=EIO:when=30",
    "every sync fails": "fdatasync:error=EIO:when=30+",
    "one write fails": "pwritev,pwritev2:error=EIO:when=30",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_disk_stops_acknowledgements(hookline: Hookline, ledger: Ledger, tmp_path: Path, fault: str) -> None:
    """No 200 leaves the process after the failure; it ends with an error, comes back, and nothing acked is lost."""
    trace = tmp_path / "trace"
    hookline.start()
    # Few enough events that no next segment is prepared meanwhile: its synchronisations would be counted as well.
    ledger.start_load(hookline.collect_port, events_per_second=400, padding_bytes=0)
    ledger.more(100)
    pid = hookline.role("collect")
    with injecting(pid, [FAULTS[fault]], trace, CALLS):
        wait_until(lambda: pid not in hookline.members(), 60, "collect ended after the failure")
    calls = trace.read_text().splitlines()
    failed = next(n for n, line in enumerate(calls) if "(INJECTED)" in line)
    assert len([line for line in calls[:failed] if OK in line]) > 10, "the trace shows acknowledgements"
    assert [line for line in calls[failed:] if OK in line] == []
    assert unfounded(calls) == []
    wait_until(lambda: re.search(r"collect ended with code [1-9]", hookline.log) is not None)
    hookline.wait_ready()
    ledger.more(500)
    ledger.stop_load()
    assert ledger.settled().lost == ()


def unfounded(calls: list[str]) -> list[str]:
    """The acknowledgements with no successful sync between the reading of their request and themselves."""
    read_at: dict[str, int] = {}
    synced_at, found = -1, []
    for n, line in enumerate(calls):
        if re.search(r"fdatasync(\(| resumed).*\) += 0$", line):
            synced_at = n
        elif request := re.search(r" (?:read|recvfrom|recvmsg)\((\d+), .*= [1-9]\d*$", line):
            read_at[request[1]] = n
        elif OK in line and (answer := re.search(r"\((\d+), ", line)) and read_at.get(answer[1], -1) > synced_at:
            found.append(line)
    return found
