"""Find out whether a destination that makes no requests can write its events where its settings say.

The check is the kind's own (``kinds/sink.py``) and has what its sink would have: the same settings, the same folder and
the same guard of addresses. No event is written.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from threading import Semaphore

import msgspec

from hookline.api.problem import Problem
from hookline.api.services import Services, part
from hookline.connections.kinds import shown_place, usual_settings
from hookline.connections.model import Destination
from hookline.connections.secrets import SecretMissing, resolve_all
from hookline.deliver.lanes.sinks import failure_words, sink_context
from hookline.kinds.catalog import kind_of
from hookline.kinds.sink import check_sink
from hookline.settings import Settings

TESTS_MAX = 16
"""Tests that may wait for receivers at once, or for the servers of sinks."""
CHECK_SECONDS = 10.0
ANSWERS = "It answers and can be written to. No event was written."


class ConnectionCheck(msgspec.Struct, frozen=True):
    """The result of a test: whether events can be written at ``place``; ``message`` says why not, and what to do."""

    ok: bool
    place: str
    message: str


@part
def test_room(services: Services) -> Semaphore:
    """Return what bounds the tests that wait for receivers."""
    return Semaphore(TESTS_MAX)


async def checked(services: Services, destination: Destination) -> ConnectionCheck:
    """Check the connection of a destination with its secrets; raise Problem when too many tests wait."""
    room = test_room(services)
    if not room.acquire(blocking=False):
        raise Problem(429, "too_many_requests", "Too many tests are waiting for receivers; try again shortly.")
    failure = await _tried(services.settings, destination, services.store.now_ms(), room.release)
    return ConnectionCheck(failure is None, shown_place(destination), ANSWERS if failure is None else failure)


async def _tried(
    settings: Settings, destination: Destination, now_ms: int, when_done: Callable[[], None]
) -> str | None:
    """Return why events cannot be written, None when they can; ``when_done`` is called when nothing goes on."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def settle(failure: str | None) -> None:
        if not answer.done():
            answer.set_result(failure)

    def run() -> None:
        failure = _failure(settings, destination, now_ms)
        when_done()
        try:
            loop.call_soon_threadsafe(settle, failure)
        except RuntimeError:  # control has ended
            return

    # A thread of its own: what waits for a server must not take one that others wait for.
    threading.Thread(target=run, name="sink-check", daemon=True).start()
    try:
        return await asyncio.wait_for(answer, CHECK_SECONDS)
    except TimeoutError:
        return f"No answer within {CHECK_SECONDS:.0f} s; check that the server runs and can be reached from here."


def _failure(settings: Settings, destination: Destination, now_ms: int) -> str | None:
    kind = kind_of(destination.kind)
    try:
        resolved = resolve_all(destination, settings, now_ms)
        context = sink_context(settings, destination.id, lambda name, sentence: None)
        check_sink(kind.manifest.sink or "" if kind is not None else "", context, usual_settings(resolved))
    except (SecretMissing, ValueError) as error:
        return _sentence(str(error))
    except Exception as error:  # noqa: BLE001 - the border to code that is not ours
        return _sentence(failure_words(error))
    return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
