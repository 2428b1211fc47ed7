"""One service for a table of cases: each case has a source, a destination and receivers of its own.

So an event of one case goes to that case's receivers only, and the cases prove by the way that they do not harm one
another. At the end the deliver role must be the process it was at the start, and no traceback in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook

RETRY_SECONDS = 30.0
TIMEOUT_SECONDS = 3.0
"""Long for a receiver in a thread beside fifty others, short for a test that waits for it twice."""


class Cases:
    """A running service with one source and destination per case, both named like the case."""

    def __init__(self, hookline: Hookline) -> None:
        self.hookline = hookline

    def send(self, case: str, **fields: Any) -> str:
        """Send one event of the case; return its messageId once it is acknowledged."""
        message_id = new_id(case)
        body = {"userId": "u1", "event": "Test", "messageId": message_id, **fields}
        answer = self.hookline.post("/v1/track", body, key=f"wk_{case}")
        assert answer.status == 200, answer
        return message_id

    def part(self, case: str, message_id: str) -> dict[str, Any]:
        """The status of the event at the case's destination, with its attempts; empty while unknown."""
        return self.hookline.status_at(message_id, case)

    def wait_attempts(
        self, case: str, message_id: str, count: int = 1, seconds: float = RETRY_SECONDS
    ) -> list[dict[str, Any]]:
        """Wait until at least ``count`` attempts of the event are told by ``why``; return all of them."""

        def told() -> list[dict[str, Any]] | None:
            attempts = self.part(case, message_id).get("attempts") or []
            return attempts if len(attempts) >= count else None

        return wait_until(told, seconds, f"{count} attempts of {message_id}") or []

    def deliver_rss_bytes(self) -> int:
        """Resident memory of the deliver role."""
        return rss_bytes(self.hookline.role("deliver"))


@contextmanager
def service_per_case(
    folder: Path, urls: Mapping[str, Sequence[str]], settings: Mapping[str, Any] | None = None
) -> Iterator[Cases]:
    """Start a service whose destination ``case`` has the URLs ``urls[case]``."""
    sources = [{"id": case, "name": case, "type": "server", "writeKeys": [f"wk_{case}"]} for case in urls]
    destinations = [webhook(case, *found, sources=[case]) for case, found in urls.items()]
    fast = {"deliver.retry_first": "100ms", "deliver.retry_max": "300ms", "deliver.timeout": f"{TIMEOUT_SECONDS:g}s"}
    with Hookline(folder, destinations, sources=sources, settings={**fast, **(settings or {})}) as hookline:
        deliver = hookline.role("deliver")
        yield Cases(hookline)
        assert hookline.role("deliver") == deliver, f"deliver was restarted; log:\n{hookline.log[-4000:]}"
        assert "Traceback (most recent call last)" not in hookline.log, hookline.log[-4000:]


@contextmanager
def receiver_per_case(folder: Path, *names: str) -> Iterator[tuple[Cases, dict[str, Receiver]]]:
    """Start a service whose destination of each name has a receiver of its own."""
    with ExitStack() as stack:
        receivers = {name: stack.enter_context(Receiver()) for name in names}
        urls = {name: [receiver.url()] for name, receiver in receivers.items()}
        yield stack.enter_context(service_per_case(folder, urls)), receivers


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmRSS for {pid}")


def instant(text: str) -> float:
    """An ISO time of the API as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()
