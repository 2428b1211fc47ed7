"""One data folder works with a PostgreSQL database: a copy of it is refused, and a moved one goes on."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.service.harness import Hookline, Receiver, wait_until, webhook

EVENTS = 20


def copied(hookline: Hookline, folder: Path, settings: dict[str, object] | None = None) -> Hookline:
    """Another service on a copy of the data folder, with ports of its own."""
    shutil.copytree(hookline.data, folder / "data", ignore=shutil.ignore_patterns("run", "lock"))
    url = {"database.url": hookline.settings["database.url"]} if "database.url" in hookline.settings else {}
    return Hookline(folder, hookline.destinations, settings={**url, **(settings or {})})


def test_a_copy_beside_its_original_is_refused(
    on_postgres: Callable[..., Hookline], receiver: Receiver, tmp_path: Path
) -> None:
    """It ends with a sentence, and of what the original took nothing is missing or sent twice."""
    with on_postgres(webhook("crm", receiver.url())) as hookline:
        sent = [hookline.track() for _ in range(EVENTS)]
        copy = copied(hookline, tmp_path / "copy")
        (copy.data / "here").write_bytes((hookline.data / "here").read_bytes().replace(b"/h0/", b"/gone/"))  # elsewhere
        process = copy.launch()
        sent += [hookline.track() for _ in range(EVENTS)]
        assert process.wait(60) == 2, copy.log
        assert "is a copy of" in copy.log
        sent += [hookline.track() for _ in range(EVENTS)]
        wait_until(lambda: len(receiver.requests) >= len(sent))
        assert Counter(request.message_id for request in receiver.requests) == Counter(sent)


def test_a_moved_folder_goes_on(on_postgres: Callable[..., Hookline], receiver: Receiver, tmp_path: Path) -> None:
    """Once the original has ended, a copy takes over; what only the original's journal had is named as lost."""
    hookline = on_postgres(webhook("crm", receiver.url()))
    with hookline:
        receiver.wait_for(hookline.track())
    moved = copied(hookline, tmp_path / "moved")
    with hookline:
        for message_id in [hookline.track() for _ in range(EVENTS)]:
            receiver.wait_for(message_id)
    with moved:
        for message_id in [moved.track() for _ in range(2 * EVENTS)]:
            receiver.wait_for(message_id)
        assert "data_folder_takes_over" in moved.log
        wait_until(lambda: "journal_behind" in [each["kind"] for each in moved.api("GET", "notices").json["items"]])
