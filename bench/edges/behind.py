"""Every odd receiver behind one service, beside one that is well: what came of each event, by the ledgers outside."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.service.client import basic, send
from tests.service.deliver.certificates import Authority
from tests.service.deliver.hostile import HostileReceiver
from tests.service.harness import Hookline, webhook
from tests.service.receiver import Receiver
from tests.service.waiting import wait_until

from bench.edges.receivers import Odd, Taken

SPREAD_SECONDS = 12.0
"""Over so long a receiver's events are sent, or fewer of them."""
JITTER_SECONDS = 0.01
SETTLE_SECONDS_MAX = 40.0
SETTINGS = {"deliver.timeout": "2s", "deliver.retry_max": "2s", "log.format": "json"}
HEALTHY = "healthy"


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one receiver's events. ``calls`` are whole requests that it read.

    ``doubled`` are those it processed again; ``unseen`` those that no attempt on record is about; ``lost`` are events
    without a status, or delivered on record and never processed.
    """

    name: str
    wanted: str
    events: int
    statuses: dict[str, int]
    calls: int
    attempts: int
    doubled: int
    unseen: int
    lost: int
    beside_seconds: float
    """The longest that the healthy receiver waited for one of the same events."""

    @property
    def is_met(self) -> bool:
        """Whether it went as it should."""
        went = self.wanted == "any" or self.statuses == {self.wanted: self.events}
        return went and not (self.unseen or self.lost) and self.beside_seconds < 2.0


class _Played:
    """One receiver at work, and the ids it is sent."""

    def __init__(self, odd: Odd, number: int, authority: Authority, stranger: Authority) -> None:
        self.odd, self.source = odd, f"s{number}"
        self.taken = Taken()
        tls = {"stranger": stranger.server, "other name": lambda: authority.server("127.0.0.2")}
        context = tls[odd.tls]() if odd.tls else None
        self.receiver = HostileReceiver(lambda connection: odd.behave(connection, self.taken), tls=context)
        self.url = f"{odd.scheme}://127.0.0.1:{self.receiver.port}/hook"
        self.ids: list[str] = []

    def row(self, hookline: Hookline, sent: dict[str, float], healthy: Receiver) -> Behind:
        statuses: Counter[str] = Counter()
        attempts = unseen = lost = 0
        asked = Counter(id for _, id, _ in list(self.receiver.requests))
        came = {request.message_id: request.at for request in healthy.requests}
        for id in self.ids:
            part = hookline.status_at(id, self.source)
            status = part.get("status", "unknown")
            statuses["retrying" if status == "queued" else status] += 1
            made = {each["number"] for each in part.get("attempts", ())}
            attempts += len(made)
            under_way = status not in ("delivered", "failed")
            unseen += max(0, asked[id] - len(made) - under_way)
            lost += status == "unknown" or (status == "delivered" and not self.taken.get(id))
        return Behind(
            name=self.odd.name,
            wanted=self.odd.ending,
            events=len(self.ids),
            statuses=dict(statuses),
            calls=sum(asked.values()),
            attempts=attempts,
            doubled=sum(count - 1 for count in self.taken.values()),
            unseen=unseen,
            lost=lost,
            beside_seconds=max((came.get(id, time.monotonic()) - sent[id] for id in self.ids), default=0.0),
        )


def play(folder: Path, odds: Sequence[Odd], events: int) -> list[Behind]:
    """Send each its events, wait until they have come to rest, and join the ledgers."""
    folder.mkdir()
    authority, stranger = Authority(folder), Authority(folder, "Somebody Else")
    played = [_Played(odd, number, authority, stranger) for number, odd in enumerate(odds)]
    with contextlib.ExitStack() as stack:
        healthy = stack.enter_context(Receiver())
        for each in played:
            stack.enter_context(each.receiver)
            if not each.odd.listens:
                each.receiver.__exit__()
        names = [each.source for each in played]
        sources = [{"id": name, "name": name, "type": "server", "writeKeys": [f"wk_{name}"]} for name in names]
        destinations = [webhook(each.source, each.url, sources=[each.source]) for each in played]
        settings = {**SETTINGS, "deliver.ca_file": str(authority.file)}
        hookline = stack.enter_context(
            Hookline(
                folder / "service",
                [*destinations, webhook(HEALTHY, healthy.url(), sources=names)],
                sources=sources,
                settings=settings,
            )
        )
        sent = _send_all(hookline, played, events)
        calm = [each for each in played if each.odd.ending in ("delivered", "failed")]
        with contextlib.suppress(AssertionError):  # the table tells what is missing
            wait_until(lambda: all(_is_done(hookline, each) for each in calm), SETTLE_SECONDS_MAX)
        return [each.row(hookline, sent, healthy) for each in played]


def _is_done(hookline: Hookline, played: _Played) -> bool:
    if hookline.status_at(played.ids[-1], played.source).get("status") != played.odd.ending:
        return False
    waits = hookline.api("GET", f"destinations/{played.source}/metrics").json["figures"]
    return not (waits["queued"] or waits["retrying"])


def _send_all(hookline: Hookline, played: Sequence[_Played], events: int) -> dict[str, float]:
    """Send every receiver's events in its own time; return when each was accepted."""
    sent: dict[str, float] = {}
    threads = [threading.Thread(target=_send, args=(hookline, each, events, sent)) for each in played]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sent


def _send(hookline: Hookline, played: _Played, events: int, sent: dict[str, float]) -> None:
    every = played.odd.every_seconds
    time.sleep(random.uniform(0, 1))
    for number in range(min(events, int(SPREAD_SECONDS / every) + 1)):
        id = f"{played.source}-{number}"
        body = {"userId": "u1", "event": "Test", "messageId": id}
        answer = send(hookline.collect_port, "POST", "/v1/track", body, basic(f"wk_{played.source}"))
        if answer.status != 200:
            raise RuntimeError(f"{played.odd.name}: {answer}")
        sent[id] = time.monotonic()
        played.ids.append(id)
        time.sleep(every + random.uniform(-JITTER_SECONDS, JITTER_SECONDS))
