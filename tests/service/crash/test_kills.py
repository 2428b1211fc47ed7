"""kill -9 of everything at random moments under load: nothing acknowledged is lost, only what was in flight repeated.

``pytest tests/service/crash --cycles 1000`` for the long run; the seed is printed.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from hookline.bench.crash.ledger import Ledger
from tests.service.harness import Hookline, wait_until

UPTIME_MAX_SECONDS = 5.0


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_kills_lose_nothing(hookline: Hookline, ledger: Ledger, request: pytest.FixtureRequest) -> None:
    """2,000 events/s, everything killed 0 to 5 s after it is ready, again and again: none lost, few sent twice."""
    cycles = int(request.config.getoption("--cycles", default=20))
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    hookline.start()
    ledger.start_load(hookline.collect_port)
    slowest_seconds = 0.0
    for _ in range(cycles):
        time.sleep(chance.uniform(0, UPTIME_MAX_SECONDS))  # the random moment itself, not a synchronisation
        hookline.kill9()
        began = time.monotonic()
        hookline.start()
        slowest_seconds = max(slowest_seconds, time.monotonic() - began)
    ledger.more(1_000)
    ledger.stop_load()
    balance = ledger.settled()
    hookline.stop()
    balance = ledger.balance()  # after the stop: no late duplicate is missed
    print(f"\n{cycles} kills, seed {seed}, slowest restart {slowest_seconds:.2f} s: {balance}")
    assert balance.lost == ()
    ledger.assert_repeats_were_in_flight()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_during_recovery(hookline: Hookline, ledger: Ledger) -> None:
    """Killed again 0 to 0.5 s into each start, before it is ready: no crash loop, nothing lost."""
    chance = random.Random(20_261_120)
    hookline.start()
    ledger.start_load(hookline.collect_port)
    for _ in range(5):
        ledger.more(500)
        hookline.kill9()
        for _ in range(3):
            hookline.launch()
            time.sleep(chance.uniform(0, 0.5))  # the random moment itself
            hookline.kill9()
        hookline.start()
    ledger.more(500)
    ledger.stop_load()
    balance = ledger.settled()
    hookline.stop()
    print(f"\n{ledger.balance()}")
    assert balance.lost == ()
    ledger.assert_repeats_were_in_flight()


@pytest.mark.parametrize("role", ["collect", "deliver"])
def test_a_killed_role_loses_nothing(hookline: Hookline, ledger: Ledger, role: str) -> None:
    """kill -9 of one role under load: its supervisor brings it back, the others go on, nothing is lost."""
    hookline.start()
    ledger.start_load(hookline.collect_port)
    for _ in range(5):
        ledger.more(1_000)
        os.kill(wait_until(lambda: hookline.role(role, required=False), what=f"{role} is back"), 9)
    ledger.more(1_000)
    ledger.stop_load()
    balance = ledger.settled()
    hookline.stop()
    print(f"\n5 kills of {role}: {ledger.balance()}")
    assert balance.lost == ()
    ledger.assert_repeats_were_in_flight()
