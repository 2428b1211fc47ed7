"""Another program holds the files of the databases, as a backup tool or an open shell does, while events come in."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from hookline.database.sqlite import BUSY_TIMEOUT_SECONDS, connect
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience

FILES = ("control", "deliver", "insights", "privacy", "profiles")
LOCK_SECONDS = BUSY_TIMEOUT_SECONDS + 2.0
"""More than anybody waits; the faults rig (``files-locked``) holds them for a minute."""
ROLES = ("collect", "deliver", "control", "profiles")
MEMBERS = audience("buyers", {"event": "Order", "count": {"gte": 2}})


@contextmanager
def locked(hookline: Hookline) -> Iterator[None]:
    """Hold every file against whoever writes."""
    with ExitStack() as held:
        for which in FILES:
            holder = held.enter_context(closing(connect(hookline.data / f"{which}.db")))
            holder.execute("BEGIN EXCLUSIVE")
        yield


def lines(hookline: Hookline, event: str) -> list[dict[str, Any]]:
    """The log's lines of one name."""
    found = [json.loads(text) for text in hookline.log.splitlines() if text.startswith("{")]
    return [line for line in found if line["event"] == event]


def waiting(hookline: Hookline) -> set[str]:
    """The roles that said at their start that they wait."""
    return {line["role"] for line in lines(hookline, "waiting_for_database")}


def test_files_that_another_program_holds(new_hookline: Any, receiver: Receiver) -> None:
    """Every call is answered 200 and every event arrives once; no role ends, and one that was killed waits and says so.
    What cannot be changed meanwhile is answered 503 with a code."""
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"log.format": "json"})
    hookline.definitions = {"audiences": [MEMBERS]}
    with hookline:
        wait_until((hookline.data / "run" / "metrics-profiles.json").exists, what="profiles reports")
        roles = {name: hookline.role(name) for name in ROLES}
        sent = [hookline.track("Order", userId="u") for _ in range(20)]
        with locked(hookline):
            ends = time.monotonic() + LOCK_SECONDS
            while time.monotonic() < ends:
                sent += [hookline.track("Order", userId="u")]
            wait_until(lambda: lines(hookline, "database_locked"), what="deliver says what it is")
            refused = hookline.api("POST", "tokens", {"name": "other", "scope": "read"})
            assert (refused.status, refused.json["code"]) == (503, "database_locked")
            assert roles == {name: hookline.role(name) for name in ROLES}
            os.kill(roles["deliver"], signal.SIGKILL)
            wait_until(lambda: "deliver" in waiting(hookline), what="another deliver waits")
            deliver = hookline.role("deliver")
            sent.append(hookline.track())
        for message in (sent[0], sent[-1]):
            hookline.wait_status(message, "crm", "delivered")
        wait_until(lambda: set(sent) <= {each.message_id for each in receiver.requests}, 60, what="all is delivered")
        assert deliver == hookline.role("deliver")
        counts = Counter(request.message_id for request in receiver.requests if request.message_id in set(sent))
        assert counts == dict.fromkeys(sent, 1)
        begun = [(line["role"], line["database"]) for line in lines(hookline, "database_locked")]
        assert len(begun) <= len(set(begun)) + 1, "deliver was started anew"
