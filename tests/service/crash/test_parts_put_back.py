"""The journal is behind what the rest of the data folder knows: nothing accepted later is taken for sent."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.crash.begun import Begun
from tests.service.harness import Hookline, Receiver, free_port, webhook
from tests.service.waiting import wait_until

EVENTS = 20


def put_back_the_journal(data: Path, older: Path) -> None:
    """The journal of an older backup beside newer databases."""
    shutil.rmtree(data / "journal")
    shutil.copytree(older / "journal", data / "journal")


def lose_the_journal(data: Path, older: Path) -> None:
    """Delete it."""
    shutil.rmtree(data / "journal")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A service that was stopped twice, with a copy beside its data of how these were the first time."""
    with Receiver(port=free_port()) as receiver:
        hookline = Hookline(tmp_path_factory.mktemp("newer"), [webhook("crm", receiver.url())])
        for _ in range(2):
            if hookline.data.exists():
                shutil.copytree(hookline.data, older(hookline), ignore=shutil.ignore_patterns("run"))
            with hookline:
                for message_id in [hookline.track() for _ in range(EVENTS)]:
                    receiver.wait_for(message_id)
    return Begun(hookline, receiver.port)


def older(hookline: Hookline) -> Path:
    """The copy."""
    return hookline.folder / "older"


@pytest.mark.parametrize("injure", [put_back_the_journal, lose_the_journal])
def test_events_accepted_behind_a_lost_end_are_sent(
    new_hookline: Callable[..., Hookline], newer: Begun, injure: Callable[[Path, Path], None]
) -> None:
    """Whatever the checkpoint and the ring said of lost events is not said of those that come after them."""
    hookline = newer.copied(new_hookline)
    injure(hookline.data, older(newer.hookline))
    with Receiver(port=newer.port) as receiver, hookline:
        sent = [hookline.track() for _ in range(2 * EVENTS)]
        wait_until(lambda: set(sent) <= {request.message_id for request in receiver.requests}, 10)
        for message_id in sent:
            assert hookline.status_at(message_id, "crm")["status"] == "delivered"

        def kinds() -> list[str]:
            return [notice["kind"] for notice in hookline.api("GET", "notices").json["items"]]

        wait_until(lambda: "journal_behind" in kinds(), 10)  # which range, since when, who knew it
