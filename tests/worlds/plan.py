"""What a run consists of, made from its seed: settings, arrivals, and faults with the second at which each strikes.

The faults are a list, so that a failing run can be tried again with fewer of them: those left strike as before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import msgspec

from hookline.settings import Deliver, Seconds
from hookline.telemetry.crashpoints import CRASH_POINTS
from tests.worlds.receiver import BEHAVIOURS, BURST, CHOOSY, PARTLY, STRICT, WELL

Kind = Literal[
    "kill",
    "power_cut",
    "stop",
    "crash_point",
    "clock_jump",
    "receiver",
    "change",
    "pause",
    "disk_full",
    "slow_disk",
    "poke_lost",
    "drain",
    "replay",
    "replay_pause",
    "replay_cancel",
    "erase",
    "secret",
    "touch",
]
Feature = Literal["filters", "all", "rates", "draining", "replays", "erasures", "secrets", "resuming", "mappings"]
FEATURES: tuple[Feature, ...] = ("filters", "all", "rates", "draining", "replays")
"""What people may use besides the plain options; a run has about half of them, one in eight has none."""
LATER: tuple[Feature, ...] = ("erasures", "secrets", "resuming")
"""What runs learned later: only seeds from ``LATER_FROM`` have it, by numbers of its own, so that the others stay what
they were."""
LATER_FROM = 400_000
MAPPED: Feature = "mappings"
"""Destinations whose requests are made by a mapping; learned later still, and so with numbers of its own again."""
MAPPED_FROM = 500_000
MAPPED_SHARE = 0.8
KINDS: tuple[tuple[Kind, int], ...] = (
    ("receiver", 10),
    ("change", 5),
    ("pause", 2),
    ("crash_point", 4),
    ("kill", 3),
    ("power_cut", 2),
    ("stop", 1),
    ("clock_jump", 1),
    ("disk_full", 1),
    ("slow_disk", 1),
    ("poke_lost", 1),
)
"""Each kind of fault with its weight."""

REPLAY_OPENED = "deliver.replay_opened"
ERASED = "deliver.erased_before_answer"
_ELSEWHERE = (REPLAY_OPENED, ERASED)
"""Points that a run passes only where somebody asks for replays, or is erased."""
ERASURE_POINTS = (ERASED, ERASED, *(name for name in CRASH_POINTS if name.startswith("journal.erase_")))
POINTS = (
    *(name for name in CRASH_POINTS if name.startswith("deliver.") and name not in _ELSEWHERE),
    "journal.after_write_before_sync",
    "journal.after_sync_before_publish",
    "journal.segment_created_before_rename",
    "journal.segment_renamed_before_sync",
)
SECONDS = (12.0, 30.0)
FAULTS_MAX = 14
BURSTS = (15, 45)
BURST_EVENTS_MAX = 9
SOURCES = ("website", "app", "shop")
DESTINATIONS_MAX = 6
MANY_DESTINATIONS = 40
EVERY = -1
"""As a fault's target: every destination that may be touched."""
ALL_AT_ONCE = 0.1
"""How often the receivers of all destinations change their behaviour together."""
PLAIN = 0.125
"""How often a run has no feature."""
REPLAYS_MAX = 5
ERASURES_MAX = 4
SECRETS_LOST_MAX = 5
PAUSES_MAX = 5
KILLS_MAX = 3
CATCH_UP_PAUSES = (0.3, 0.5, 1.1, 1.5, 2.5)
"""Lengths in seconds after which events are sent at a chosen rate (``connected.resume``)."""
RUSH_BURSTS = 12
RUSH_SECONDS = 0.3
USERS = 9
REPLAYED = ("stretch", "late", "source", "user", "ids", "letters", "unfiltered")
"""What a replay is asked for: everything, the second half, one source, one user, messageIds, dead letters, or
everything past the filters."""
CHOOSY_SHARE = 0.3
"""In how many runs a receiver refuses most events for themselves."""
BURST_SHARE = 0.4
"""In how many runs receivers send everybody away for a moment, with a Retry-After of any kind."""
BURST_SECONDS = (0.3, 4.0)
MANY = 0.04
"""How often a run has many lanes."""


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong, when, and for how long or how far; ``what`` is the receiver's behaviour, the crash point, or
    what is asked for."""

    at: float
    kind: Kind
    target: int = 0
    what: str = ""
    amount: float = 0.0


class Burst(msgspec.Struct, frozen=True):
    """Events that arrive together."""

    at: float
    events: int


class Plan(msgspec.Struct, frozen=True):
    """Everything that is decided before a run begins."""

    seed: int
    seconds: float
    partitions: int
    deliver: Deliver
    destinations: int
    bursts: tuple[Burst, ...]
    faults: tuple[Fault, ...]
    spared: int
    """Destinations from this index on are never touched by a fault: isolation is measured at them."""
    features: tuple[Feature, ...] = ()

    def only(self, kept: tuple[int, ...]) -> Plan:
        """The same run with only some of its faults, by index."""
        faults = tuple(self.faults[index] for index in kept if index < len(self.faults))
        return msgspec.structs.replace(self, faults=faults)


def plan_of(seed: int) -> Plan:
    """The plan of a seed: the plain one, with some features and what is done with them."""
    plan = plain_plan_of(seed)
    rng = random.Random(f"{seed}/features")
    if rng.random() < PLAIN:
        return plan
    features = tuple(feature for feature in FEATURES if rng.random() < 0.5)
    later_rng = random.Random(f"{seed}/later")
    later = tuple(feature for feature in LATER if seed >= LATER_FROM and later_rng.random() < 0.5)
    if seed >= MAPPED_FROM and random.Random(f"{seed}/mapped").random() < MAPPED_SHARE:
        later += (MAPPED,)
    faults = [
        *plan.faults,
        *_uses(rng, features, plan.seconds, plan.spared),
        *_later_uses(seed, later_rng, later, plan.seconds, plan.spared),
        *_choosy(seed, plan),
        *_sent_away(seed, plan),
        *(_items_refused(seed, plan) if MAPPED in later else ()),
    ]
    ordered = tuple(sorted(faults, key=lambda fault: fault.at))
    bursts = tuple(sorted([*plan.bursts, *_rush(seed, later, plan.seconds)], key=lambda burst: burst.at))
    return msgspec.structs.replace(plan, features=features + later, faults=ordered, bursts=bursts)


def plain_plan_of(seed: int) -> Plan:
    """The plan of a seed without any feature."""
    rng = random.Random(f"{seed}/plan")
    seconds = rng.uniform(*SECONDS)
    destinations = MANY_DESTINATIONS if rng.random() < MANY else rng.randint(1, DESTINATIONS_MAX)
    spared = destinations - rng.choice((0, 1)) if destinations > 1 else destinations
    faults = [_fault(rng, seconds, spared) for _ in range(rng.randint(1, FAULTS_MAX))]
    fewest, most = (3, 8) if destinations == MANY_DESTINATIONS else BURSTS
    bursts = [
        Burst(rng.uniform(0, seconds), rng.randint(1, BURST_EVENTS_MAX)) for _ in range(rng.randint(fewest, most))
    ]
    return Plan(
        seed,
        seconds,
        rng.choice((1, 1, 2)),
        Deliver(
            timeout=Seconds(1.0),
            retry_first=Seconds(rng.choice((0.2, 0.5, 1.0))),
            retry_max=Seconds(rng.choice((2.0, 5.0))),
            retry_window=Seconds(rng.choice((10.0, 20.0, 60.0))),
        ),
        destinations,
        tuple(sorted(bursts, key=lambda burst: burst.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        spared,
    )


def _fault(rng: random.Random, seconds: float, touchable: int) -> Fault:
    kinds, weights = zip(*KINDS, strict=True)
    kind: Kind = rng.choices(kinds, weights)[0]
    at, target = rng.uniform(0, seconds), rng.randrange(touchable)
    if kind == "receiver":
        return Fault(at, kind, EVERY if rng.random() < ALL_AT_ONCE else target, rng.choice(BEHAVIOURS).name)
    if kind == "crash_point":
        return Fault(at, kind, target, rng.choice(POINTS), rng.choice((0, 1, 2, 5)))
    if kind == "clock_jump":
        return Fault(at, kind, amount=rng.choice((-20.0, -3.0, 3.0, 20.0, 3_600.0)))
    if kind in ("disk_full", "slow_disk", "pause"):
        return Fault(at, kind, target, amount=rng.uniform(0.5, 5.0))
    return Fault(at, kind, target, amount=rng.uniform(0.05, 2.0))


def _choosy(seed: int, plan: Plan) -> Iterator[Fault]:
    """A receiver that has no use for most events; by numbers of its own, so that the rest of a seed stays as it was."""
    rng = random.Random(f"{seed}/choosy")
    if rng.random() < CHOOSY_SHARE:
        yield Fault(rng.uniform(0, plan.seconds), "receiver", rng.randrange(plan.spared), CHOOSY.name)


def _sent_away(seed: int, plan: Plan) -> Iterator[Fault]:
    """Bursts of 429 and 503 that end as they came; by numbers of their own as well."""
    rng = random.Random(f"{seed}/sent away")
    for _ in range(rng.randint(1, 3) if rng.random() < BURST_SHARE else 0):
        at, target = rng.uniform(0, plan.seconds), rng.randrange(plan.spared)
        yield Fault(at, "receiver", target, BURST.name)
        yield Fault(at + rng.uniform(*BURST_SECONDS), "receiver", target, WELL.name)


def _items_refused(seed: int, plan: Plan) -> Iterator[Fault]:
    """Receivers that refuse some events of a batch, with or without saying which."""
    rng = random.Random(f"{seed}/items refused")
    for _ in range(rng.randint(2, 5)):
        at, target = rng.uniform(0, plan.seconds), rng.randrange(plan.spared)
        yield Fault(at, "receiver", target, rng.choice((PARTLY, STRICT)).name)


def _uses(rng: random.Random, features: tuple[Feature, ...], seconds: float, touchable: int) -> Iterator[Fault]:
    """What people do with the features of a run."""
    if "draining" in features:
        for _ in range(rng.randint(1, 3)):
            at, target = rng.uniform(0, seconds), rng.randrange(touchable)
            yield Fault(at, "drain", target, rng.choice(("", "", "discard")), rng.uniform(0.3, 4.0))
    if "replays" not in features:
        return
    for _ in range(rng.randint(1, REPLAYS_MAX)):
        at, target, rate = rng.uniform(0, seconds), rng.randrange(touchable), rng.choice((0.0, 0.0, 15.0))
        yield Fault(at, "replay", target, rng.choice(REPLAYED), rate)
    for _ in range(rng.randint(0, 2)):
        yield Fault(rng.uniform(0, seconds), "replay_pause", rng.randrange(99), amount=rng.uniform(0.3, 5.0))
    for _ in range(rng.randint(0, 1)):
        yield Fault(rng.uniform(0, seconds), "replay_cancel", rng.randrange(99))
    if rng.random() < 0.3:
        yield Fault(rng.uniform(0, seconds), "crash_point", 0, REPLAY_OPENED, rng.choice((0, 1)))


def _rush_at(seed: int, seconds: float) -> float:
    return random.Random(f"{seed}/rush").uniform(0, seconds)


def _rush(seed: int, features: tuple[Feature, ...], seconds: float) -> Iterator[Burst]:
    """Much that comes at once: readers hold what they have read ahead, batches are full, and a kill finds results that
    are not saved."""
    at = _rush_at(seed, seconds)
    for number in range(RUSH_BURSTS if {"erasures", "resuming", MAPPED} & set(features) else 0):
        yield Burst(at + RUSH_SECONDS * number / RUSH_BURSTS, BURST_EVENTS_MAX)


def _later_uses(
    seed: int, rng: random.Random, features: tuple[Feature, ...], seconds: float, touchable: int
) -> Iterator[Fault]:
    """What people do with what runs learned later."""
    if "erasures" in features:
        for _ in range(rng.randint(1, ERASURES_MAX)):
            yield Fault(rng.uniform(0, seconds), "erase", rng.randrange(USERS))
        at = _rush_at(seed, seconds)
        yield Fault(at, "receiver", EVERY, "slow")
        for _ in range(rng.randint(1, ERASURES_MAX)):
            yield Fault(at + rng.uniform(RUSH_SECONDS, 3.0), "erase", rng.randrange(USERS))
        if rng.random() < 0.4:
            yield Fault(rng.uniform(0, seconds), "crash_point", 0, rng.choice(ERASURE_POINTS))
    if "secrets" in features:
        for _ in range(rng.randint(1, SECRETS_LOST_MAX)):
            at, target = rng.uniform(0, seconds), rng.randrange(touchable)
            yield Fault(at, "secret", target, rng.choice(("", "", "unnoticed")), rng.uniform(0.3, 8.0))
    if "resuming" in features:
        for _ in range(rng.randint(2, PAUSES_MAX)):
            at, target = rng.uniform(0, seconds), rng.randrange(touchable)
            yield Fault(at, "pause", target, amount=rng.choice(CATCH_UP_PAUSES))
            yield Fault(at + rng.uniform(2.0, 12.0), "touch", target)
        # A lane that stands still finds what was not saved at every start.
        at = _rush_at(seed, seconds) + rng.uniform(0.0, RUSH_SECONDS)
        yield Fault(at, "pause", rng.randrange(touchable), amount=2.5)
        for number in range(rng.randint(0, KILLS_MAX)):
            yield Fault(at + 0.01 + number * 0.6, "kill", amount=0.05)
