"""PostgreSQL is restarted while events flow; a ledger outside of the service is held against it."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, Reply, Request, is_ready, new_id, wait_until, webhook

SHUTDOWNS = (signal.SIGINT, signal.SIGQUIT)
"""Fast and immediate; ``make faults`` has twenty."""
BATCH = 50
EVENTS_PER_SECOND = 500
REPEATED_SHARE_MAX = 0.005


class Ledger:
    """Sends batches at a rate until told to stop, and keeps what was acknowledged."""

    def __init__(self, hookline: Hookline, events_per_second: int = EVENTS_PER_SECOND) -> None:
        self._events_per_second = events_per_second
        self.acknowledged: list[str] = []
        self.refused = 0
        self.stop = threading.Event()
        self._hookline = hookline
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self.stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count(1):
            batch = [
                {"type": "track", "userId": f"u{each}", "event": "E", "messageId": new_id()} for each in range(BATCH)
            ]
            if self._hookline.post("/v1/batch", {"batch": batch}).status == 200:
                self.acknowledged += [event["messageId"] for event in batch]
            else:
                self.refused += 1
            if self.stop.wait(max(0.0, began + number * BATCH / self._events_per_second - time.monotonic())):
                return


@pytest.mark.slow
def test_nothing_is_lost_and_next_to_nothing_repeated(
    on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """A fast and an immediate shutdown: every call is answered 200, every event delivered and told; one receiver
    fails a tenth of its requests, so that retries are under way in each outage."""
    turn = itertools.count()

    def sometimes(request: Request) -> Reply:
        return Reply(500 if next(turn) % 10 == 0 else 200)

    with (
        Receiver() as failing,
        on_postgres(webhook("crm", receiver.url()), webhook("shaky", failing.url())) as hookline,
    ):
        failing.respond = sometimes
        ledger = Ledger(hookline)
        try:
            for shutdown in SHUTDOWNS:
                enough = len(ledger.acknowledged) + EVENTS_PER_SECOND
                wait_until(lambda enough=enough: len(ledger.acknowledged) >= enough, 60, what="events flow")  # type: ignore[misc]
                server.stop(shutdown)
                enough = len(ledger.acknowledged) + EVENTS_PER_SECOND // 2
                wait_until(lambda enough=enough: len(ledger.acknowledged) >= enough, 60, what="events flow without it")  # type: ignore[misc]
                server.start()
                hookline.wait_ready()
        finally:
            ledger.end()
        assert ledger.refused == 0
        sent = set(ledger.acknowledged)
        for each in (receiver, failing):
            wait_until(lambda each=each: sent <= each.message_ids, 60, what="all is delivered")  # type: ignore[misc]
        counts = Counter(request.message_id for request in receiver.requests)
        assert counts.total() - len(counts) <= len(sent) * REPEATED_SHARE_MAX
        for message in ledger.acknowledged[:: len(sent) // 50]:
            hookline.wait_status(message, "crm", "delivered")
            attempts = hookline.wait_status(message, "shaky", "delivered")["attempts"]
            assert [attempt["number"] for attempt in attempts] == list(range(1, len(attempts) + 1))
        wait_until(lambda: hookline.metric("hookline_deliver_retry_rows") == 0, what="no retry is left")
        assert hookline.api("GET", "dead-letters").json["items"] == []
        print(f"{len(sent)} events, {counts.total() - len(counts)} repeated at the healthy receiver")


def test_a_start_beside_a_locked_table_goes_on_when_it_is_free(
    on_postgres: Callable[..., Hookline], server: PostgresServer, database_url: str, receiver: Receiver
) -> None:
    """As beside ``VACUUM FULL`` or a migration: collect takes events by what it knew last, and hears of a new source
    afterwards. It had waited for ever for its own leader lock, and no call was answered but with 503."""
    hookline = on_postgres(webhook("crm", receiver.url()))
    with hookline:
        receiver.wait_for(hookline.track())
    with psycopg.connect(server.url(database_url.partition("?")[0].rpartition("/")[2])) as holder:
        holder.execute("LOCK TABLE hookline_deliver.lanes IN ACCESS EXCLUSIVE MODE")
        hookline.launch()
        wait_until(lambda: is_ready(hookline.collect_port), what="collect takes events")
        meanwhile = hookline.track()
    hookline.wait_ready()
    receiver.wait_for(meanwhile)
    late = {"id": "late", "name": "Late", "type": "server", "writeKeys": ["wk_late"]}
    assert hookline.api("POST", "sources", late).status == 201
    wait_until(lambda: hookline.post("/v1/track", {"userId": "u"}, key="wk_late").status != 401, what="it is known")
    hookline.stop()
