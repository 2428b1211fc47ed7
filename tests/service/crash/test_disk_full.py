"""A full disk, a real one: 503 before any acknowledgement, deliveries go on, and it comes back by itself.

The service runs in a mount namespace of its own (``unshare``) on a small tmpfs, which needs no privileges and leaves
nothing behind; the test reaches it through /proc.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.crash.ledger import Ledger

from tests.service.client import basic, send
from tests.service.harness import COMMAND, Answer, Hookline, is_ready, new_id, wait_until, webhook

DISK_BYTES = 192 * 1024 * 1024
BACK_SECONDS = 60.0
STILL_FULL_BYTES = 32 * 1024 * 1024
"""What the journal leaves free for others: with less room it refuses. A segment of 16 MiB that was prepared comes back
when ``collect`` is killed."""
ON_SMALL_DISK = 'mount -t tmpfs -o size="$SMALL_DISK_BYTES" tmpfs "$SMALL_DISK" && while "$@"; [ $? != 2 ]; do :; done'
"""What ends is started again, as a service manager would, and code 2 ends it."""


@pytest.fixture
def on_small_disk(ledger: Ledger, tmp_path: Path, new_hookline: Callable[..., Hookline]) -> Hookline:
    """A running service whose data folder lies on a tmpfs of DISK_BYTES that only it sees."""
    disk = tmp_path / "disk"
    disk.mkdir()
    hookline = new_hookline(
        webhook("crm", ledger.sinks[0].url),
        settings={"data_dir": str(disk / "data")},
        environment={"SMALL_DISK": str(disk), "SMALL_DISK_BYTES": str(DISK_BYTES)},
        command=("unshare", "--mount", "--map-root-user", "sh", "-c", ON_SMALL_DISK, "sh", *COMMAND),
    )
    hookline.start()
    assert hookline.process is not None
    hookline.data = Path(f"/proc/{hookline.process.pid}/root{disk}/data")
    return hookline


def fill(folder: Path) -> Path:
    """Take all the space that is left; return the file that holds it."""
    path = folder / f"filler-{new_id()}"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"\xaa" * 65_536) == 65_536:
                pass
            while file.write(b"\xaa"):
                pass
        except OSError:
            pass
    return path


def big_event(hookline: Hookline) -> Answer:
    body = {"userId": "u", "event": "Big", "messageId": new_id(), "properties": {"p": "x" * 30_000}}
    return send(hookline.collect_port, "POST", "/v1/track", body, basic("wk_site"))


def test_a_full_disk_refuses_and_recovers(on_small_disk: Hookline, ledger: Ledger) -> None:
    """At 100 %: what is acknowledged is stored and delivered, the rest is 503 with Retry-After; space makes it work."""
    hookline = on_small_disk
    ledger.start_load(hookline.collect_port, padding_bytes=2_000)
    ledger.more(200)
    filler = fill(hookline.data)
    refused = wait_until(lambda: next((a for a in [big_event(hookline)] if a.status != 200), None), 60, "a refusal")
    assert refused is not None
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json["success"] is False
    wait_until(lambda: send(hookline.collect_port, "GET", "/readyz").status == 503)
    assert hookline.api("GET", "destinations").status == 200
    wait_until(lambda: not ledger.balance().lost, 60, "what was acknowledged before is delivered on a full disk")
    processes = set(hookline.members())
    filler.unlink()
    wait_until(lambda: big_event(hookline).status == 200, BACK_SECONDS, "back by itself")
    ledger.more(500)
    ledger.stop_load()
    assert ledger.settled().lost == ()
    assert set(hookline.members()) == processes, "a role died of the full disk"


def test_kill_on_a_full_disk_loses_nothing(on_small_disk: Hookline, ledger: Ledger) -> None:
    """The disk fills up, collect and deliver are killed and start on the full disk, space returns: nothing is lost."""
    hookline = on_small_disk
    ledger.start_load(hookline.collect_port, padding_bytes=2_000)
    ledger.more(200)
    # A segment that was just being prepared gives its room back when the disk is full.
    wait_until(lambda: fill(hookline.data) and big_event(hookline).status == 503, 60, "a refusal")
    for role in ("collect", "deliver"):
        os.kill(hookline.role(role), 9)
    wait_until(lambda: send_or_none(hookline) == 503, 60, "collect back on the full disk, refusing")
    wait_until(lambda: not ledger.balance().lost, 60, "deliver back on the full disk, delivering")
    assert fill(hookline.data).stat().st_size < STILL_FULL_BYTES, "the disk was not full any more"
    for path in hookline.data.glob("filler-*"):
        path.unlink()
    wait_until(lambda: send_or_none(hookline) == 200, 60, "back by itself")
    ledger.more(500)
    ledger.stop_load()
    balance = ledger.settled()
    print(f"\n{balance}", file=sys.stderr)
    assert balance.lost == ()


def test_the_service_starts_on_a_full_disk(on_small_disk: Hookline, ledger: Ledger) -> None:
    """The supervisor is killed and started again on the full disk: what waited is delivered, control waits where it has
    no room at all, and nothing ends with a traceback."""
    hookline = on_small_disk
    ledger.sinks[0].hang()
    ledger.start_load(hookline.collect_port, padding_bytes=2_000)
    ledger.more(200)
    ledger.stop_load()
    wait_until(lambda: fill(hookline.data) and big_event(hookline).status == 503, 60, "a refusal")
    gone = {0, *hookline.members()}
    os.kill(hookline.role("hookline.cli.service.supervisor"), 9)
    for role in ("collect", "deliver", "control"):
        wait_until(lambda role=role: hookline.role(role, required=False) not in gone, 60, role)  # type: ignore[misc]
    ledger.sinks[0].wake()
    assert ledger.settled().lost == ()
    wait_until(lambda: send_or_none(hookline) == 503, 60, "collect answers, and takes nothing")
    control = hookline.role("control")
    for path in hookline.data.glob("filler-*"):
        path.unlink()
    wait_until(lambda: is_ready(hookline.control_port), 60, "control is ready once there is room")
    assert hookline.role("control") == control


def send_or_none(hookline: Hookline) -> int | None:
    try:
        return big_event(hookline).status
    except OSError:
        return None
