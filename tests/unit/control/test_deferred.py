"""The pages are made with the first request for one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from litestar.types import ControllerRouterHandler

from hookline.control.front import Deferred
from hookline.control.pages import routes
from tests.unit.control.running import Running


def test_an_application_is_made_once_however_many_ask_first() -> None:
    asked: list[str] = []
    made: list[str] = []
    all_asked = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])

    def make() -> Any:
        assert all_asked.wait(30), "the loop goes on while the application is made"
        made.append(threading.current_thread().name)
        return app

    async def ask() -> None:
        deferred = Deferred(make)
        first = [asyncio.create_task(deferred({"path": name}, None, None)) for name in ("/a", "/b")]  # type: ignore[arg-type]  # all that app looks at
        await asyncio.sleep(0)
        all_asked.set()
        await asyncio.gather(*first)
        await deferred({"path": "/c"}, None, None)  # type: ignore[arg-type]  # the same

    asyncio.run(ask())
    assert sorted(asked) == ["/a", "/b", "/c"]
    assert len(made) == 1
    assert made[0] != threading.main_thread().name


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        tries.append(0)

    def make() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no file can be opened just now")
        return app

    async def ask() -> None:
        deferred = Deferred(make)
        with pytest.raises(OSError, match="just now"):
            await deferred({}, None, None)  # type: ignore[arg-type]  # nothing is looked at
        await deferred({}, None, None)  # type: ignore[arg-type]  # the same

    asyncio.run(ask())
    assert tries == [1, 1, 0]


def test_the_api_answers_before_any_page_is_made(tmp_path: Path) -> None:
    made: list[str] = []

    def pages() -> Sequence[ControllerRouterHandler]:
        made.append("pages")
        return routes()

    with Running(tmp_path / "data", pages=pages) as running:
        assert running.call("GET", "/api/v1/sources").status == 200
        assert running.call("GET", "/readyz").status == 200
        assert running.call("GET", "/api/v1/nothing").json["code"] == "not_found"
        assert made == []
        assert running.call("GET", "/login").status == 200
        assert running.call("GET", "/nothing").json["code"] == "not_found"
        assert made == ["pages"]
