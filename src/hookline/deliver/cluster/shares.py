"""How several deliver processes divide a receiver's limits: a rule without clocks, files or threads (decision 36).

Each process holds a share, and every row says what its process holds. One that holds too much uses less at once, and
says so when that is true; one that may have more takes it as far as the sum allows. Rows are read and written in
transactions that go one after another, so the sum is never above the limit, whoever comes, goes or dies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

TURN_SECONDS = 5.0
"""Where there are fewer requests at once than processes that wait: how long one of them may have its turn."""
ROWS_APART_SECONDS = 1.5
"""So much older than one's own the others' rows may be: who has waited about as long as they does not wait for them."""
PART_STEPS = 1_000_000
"""Parts of a rate are kept as multiples of this fraction, so that their sum is exact enough."""
_NOTHING = 1e-9


class Demand(NamedTuple):
    """What one process could use of a limit (``wanted``), and what it holds. ``weight`` is its partitions."""

    weight: int
    wanted: float
    held: float
    turn_seconds: float = 0.0


class Outcome(NamedTuple):
    """What a process holds from now on, and how much of that it may use: less, where it is to give some up."""

    held: float
    usable: float


def fair(limit: float, demands: Mapping[str, Demand]) -> dict[str, float]:
    """Divide a limit by weight; what one cannot use goes to those who can, and what nobody can use to all."""
    shares = dict.fromkeys(demands, 0.0)
    wanting = {name for name, demand in demands.items() if demand.weight > 0 and demand.wanted > 0}
    left = limit
    while wanting and left > _NOTHING:
        each = left / sum(demands[name].weight for name in wanting)
        content = {name for name in wanting if demands[name].wanted <= each * demands[name].weight}
        if not content:
            for name in wanting:
                shares[name] = each * demands[name].weight
            return shares
        for name in content:
            shares[name] = demands[name].wanted
            left -= demands[name].wanted
        wanting -= content
    weights = sum(demand.weight for demand in demands.values())
    for name, demand in demands.items() if weights and left > _NOTHING else ():
        shares[name] += left * demand.weight / weights
    return shares


def whole(limit: int, demands: Mapping[str, Demand], me: str) -> dict[str, int]:
    """Divide a limit into whole numbers. What is left over stays where it is, unless somebody waits who has nothing:
    then it goes round, to whoever has waited longest as far as ``me`` can tell."""
    exact = fair(limit, demands)
    shares = {name: int(share + _NOTHING) for name, share in exact.items()}
    is_starving = any(
        not shares[name] and not demand.held and demand.turn_seconds > 0 and exact[name] > _NOTHING
        for name, demand in demands.items()
    )

    def order(name: str) -> tuple[int, float, str]:
        demand = demands[name]
        if demand.held > shares[name]:
            is_over = is_starving and demand.turn_seconds < -TURN_SECONDS
            return (2 if is_over else 0), 0.0, name
        return 1, -demand.turn_seconds - (ROWS_APART_SECONDS if name == me else 0.0), name

    entitled = sorted((name for name in demands if exact[name] - shares[name] > _NOTHING), key=order)
    for name in entitled[: limit - sum(shares.values())]:
        shares[name] += 1
    return shares


def settle(limit: float, me: str, demands: Mapping[str, Demand], share: float) -> Outcome:
    """Go towards a share: use less at once, but hold more only as far as the sum of all allows."""
    mine = demands[me]
    others = [demand for name, demand in demands.items() if name != me]
    free = limit - sum(demand.held for demand in others)
    if mine.held <= free and all(demand.wanted <= demand.held + _NOTHING for demand in others):
        share = max(share, mine.held)  # nobody waits for what it has beyond its share
    held = max(mine.held, min(share, free))
    return Outcome(held, min(share, held))


def settle_whole(limit: int, me: str, demands: Mapping[str, Demand]) -> tuple[int, int]:
    """``settle`` for requests at once: what is held, and what may be used."""
    held, usable = settle(limit, me, demands, whole(limit, demands, me)[me])
    return int(held), int(usable)


def settle_part(me: str, demands: Mapping[str, Demand]) -> tuple[float, float]:
    """``settle`` for the parts of a rate."""
    held, usable = settle(1.0, me, demands, math.floor(fair(1.0, demands)[me] * PART_STEPS) / PART_STEPS)
    return held, usable
