"""The journal is behind what the rest of the data folder knows: nothing accepted later is taken for sent."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.harness import Hookline, Receiver, webhook
from tests.service.waiting import wait_until

EVENTS = 20


def put_back_the_journal(data: Path, older: Path) -> None:
    """The journal of an older backup beside newer databases."""
    shutil.rmtree(data / "journal")
    shutil.copytree(older / "journal", data / "journal")


def lose_the_journal(data: Path, older: Path) -> None:
    """Delete it."""
    shutil.rmtree(data / "journal")


@pytest.mark.parametrize("injure", [put_back_the_journal, lose_the_journal])
def test_events_accepted_behind_a_lost_end_are_sent(
    new_hookline: Callable[..., Hookline], receiver: Receiver, tmp_path: Path, injure: Callable[[Path, Path], None]
) -> None:
    """Whatever the checkpoint and the ring said of lost events is not said of those that come after them."""
    hookline = new_hookline(webhook("crm", receiver.url()))
    for _ in range(2):
        older = tmp_path / "older"
        if hookline.data.exists() and not older.exists():
            shutil.copytree(hookline.data, older, ignore=shutil.ignore_patterns("run"))
        with hookline:
            for message_id in [hookline.track() for _ in range(EVENTS)]:
                receiver.wait_for(message_id)
    injure(hookline.data, older)
    with hookline:
        sent = [hookline.track() for _ in range(2 * EVENTS)]
        wait_until(lambda: set(sent) <= {request.message_id for request in receiver.requests}, 10)
        for message_id in sent:
            assert hookline.status_at(message_id, "crm")["status"] == "delivered"

        def kinds() -> list[str]:
            return [notice["kind"] for notice in hookline.api("GET", "notices").json["items"]]

        wait_until(lambda: "journal_behind" in kinds(), 10)  # which range, since when, who knew it
