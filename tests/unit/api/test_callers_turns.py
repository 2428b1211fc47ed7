"""Many slow calls of one caller do not keep other callers waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.api import calls
from hookline.api.caller import Caller
from hookline.api.calls import ListThread
from hookline.features.events.log import EventLog
from hookline.features.people.service import PersonLog
from hookline.settings import Settings

Ask = Callable[[Callable[..., None]], Awaitable[object]]


def of_events(settings: Settings) -> tuple[Ask, Callable[[], None]]:
    """Hold how work is done with the events, and what ends that."""
    log = EventLog(settings)
    return log.run, log.close


def of_people(settings: Settings) -> tuple[Ask, Callable[[], None]]:
    """The same with one person's events."""
    log = PersonLog(settings)
    return log.read, log.close


def of_lists(_: Settings) -> tuple[Ask, Callable[[], None]]:
    """The same with lists that may look at every row."""
    thread = ListThread()
    return thread.run, thread.close


@pytest.mark.parametrize("opened", [of_events, of_people, of_lists])
def test_another_caller_waits_for_one_call_alone(tmp_path: Path, opened: Callable[[Settings], Any]) -> None:
    """Whoever asks after a viewer with many searches is next when the first of these is done; work of ours waits for
    none of them."""
    ask, close = opened(Settings(data_dir=str(tmp_path)))
    done: list[str] = []

    async def asked_by(name: str) -> None:
        if name:
            call: Any = SimpleNamespace(caller=Caller("token", name, "viewer", ord(name)))
            calls._current.set(call)
        await ask(lambda *_: done.append(name))

    async def all_at_once() -> None:
        await asyncio.gather(*map(asked_by, ["a", "a", "a", "a", "b", ""]))

    asyncio.run(all_at_once())
    close()
    assert done == ["a", "b", "", "a", "a", "a"]
