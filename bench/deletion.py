"""How long deleting takes until nothing of the people is left: of one, and of as many as a request may have."""

from __future__ import annotations

import time

from bench.beside import PEOPLE, with_people
from hookline.bench.machine import wait_until
from hookline.bench.rig import Figures, Rig, rig
from hookline.privacy.model import PEOPLE_MAX

EVENTS = 1_000_000
WAIT_SECONDS = 3_600.0


def deletion(seconds: float, events: int = EVENTS) -> Figures:
    """Deletions with so many events in the folder, all indexed, and applied to people; ``seconds`` has no say."""
    with rig(events_max=events + 1_000, connections=with_people) as bench:
        bench.start_receiver()
        bench.saturate(WAIT_SECONDS, events, people=PEOPLE)
        stored = bench.service.events_accepted()
        wait_until(lambda: _applied(bench) >= stored, WAIT_SECONDS, "profiles caught up")
        one = _deleted(bench, {"userId": _user(0), "action": "delete"})
        many = _deleted(bench, {"userIds": [_user(number) for number in range(1, PEOPLE_MAX + 1)], "action": "both"})
    return {
        "deletion_events_in_folder": float(stored),
        **{f"deletion_of_one_{name}": value for name, value in one.items()},
        **{f"deletion_of_{PEOPLE_MAX}_{name}": value for name, value in many.items()},
    }


def _user(number: int) -> str:
    return f"user-{number:05d}"


def _applied(bench: Rig) -> float:
    return bench.service.metric("hookline_profiles_applied_total")


def _deleted(bench: Rig, asked: dict[str, object]) -> Figures:
    began = time.monotonic()
    made = bench.service.api("POST", "deletion-requests", asked)["id"]
    wait_until(lambda: _state(bench, made) in {"waiting", "done"}, WAIT_SECONDS, "everything erased")
    erased = time.monotonic() - began
    wait_until(lambda: _state(bench, made) == "done", WAIT_SECONDS, "deletion done")
    found = bench.service.api("GET", f"deletion-requests/{made}")["erased"]
    return {
        "erased_seconds": erased,
        "done_seconds": time.monotonic() - began,
        "events_erased": float(found["events"]),
        "profiles_erased": float(found["profiles"]),
    }


def _state(bench: Rig, request: str) -> str:
    return str(bench.service.api("GET", f"deletion-requests/{request}")["state"])
