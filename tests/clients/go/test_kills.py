"""The Go library and a real Hookline that is killed and restarted: nothing is lost, and each program's order is kept.

``pytest tests/clients/go --client-events 100000`` sends the full number, with twenty kills.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.go.programs import PROGRAMS, Program
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook

EVENTS_PER_KILL = 2_500
KILLS_MAX = 20
DELAY_SECONDS_MAX = 0.2
ARRIVAL_SECONDS = 900.0
SEED = 7
SPOOLED = {"memory": False, "spool": True}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("spooled", SPOOLED.values(), ids=SPOOLED)
def test_nothing_is_lost_while_the_service_is_killed(
    new_hookline: Callable[..., Hookline],
    receiver: Receiver,
    programs: list[Program],
    tmp_path: Path,
    spooled: bool,
    client_events: int,
) -> None:
    """Programs go on calling; after each kill the service comes back, and every event arrives in the order of calls."""
    kills = min(KILLS_MAX, max(2, client_events // EVENTS_PER_KILL))
    share = client_events // kills // PROGRAMS
    where = {"spool": str(tmp_path / "spool")} if spooled else {"on_full": "block", "block_timeout": ARRIVAL_SECONDS}
    chance = random.Random(SEED)
    hookline = new_hookline(webhook("crm", receiver.url(), delivery={"order": "user"})).start()
    options = {"write_key": WRITE_KEY, "endpoint": f"http://127.0.0.1:{hookline.collect_port}", "timeout": 5, **where}
    assert [program.do(do="init", options=options) for program in programs] == [{"ok": True}] * PROGRAMS

    for kill in range(kills):
        for program in programs:
            properties = {"kill": kill, "n": "{n}"}
            message = {"userId": program.user, "event": "Test", "properties": properties}
            program.begin(do="calls", count=share, type="track", message=message)
        time.sleep(chance.uniform(0, DELAY_SECONDS_MAX))
        if kill % 2:
            hookline.kill9()
            hookline.start()
        else:
            hookline.restart()
        assert [program.answer() for program in programs] == [{"taken": share}] * PROGRAMS

    for program in programs:
        result = program.do(do="flush", seconds=ARRIVAL_SECONDS)
        assert (result["accepted"], result["waiting"], result["gave_up"], result["dropped"]) == (kills * share, 0, 0, 0)
    called = [(kill, str(n)) for kill in range(kills) for n in range(share)]
    wait_until(
        lambda: len({request.message_id for request in receiver.requests}) >= len(called) * PROGRAMS,
        ARRIVAL_SECONDS,
        "all at the receiver",
    )
    arrived = first_arrivals(receiver)
    assert {program.user: arrived[program.user] == called for program in programs} == {
        program.user: True for program in programs
    }
    print(f"\n{len(called) * PROGRAMS:,} events, {kills} kills and restarts of the service; 0 lost, order kept")


def first_arrivals(receiver: Receiver) -> dict[str, list[tuple[int, str]]]:
    """Each program's events in the order in which they first came: a killed service delivers some of them again."""
    found: dict[str, dict[tuple[int, str], None]] = {}
    for request in receiver.requests:
        body = request.json
        found.setdefault(body["userId"], {})[body["properties"]["kill"], body["properties"]["n"]] = None
    return {user: list(events) for user, events in found.items()}
