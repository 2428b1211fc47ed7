"""Bytes of a journal that the disk, or somebody, has changed: events beside them go on being delivered."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.service.harness import Hookline, Receiver, wait_until, webhook

GROUP_HEADER_BYTES = 28


def flip(path: Path, position: int) -> None:
    """Flip one bit where it stands, as a disk does."""
    with path.open("r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, position)
        os.pwrite(file.fileno(), bytes([byte ^ 4]), position)


def place_of(data: Path, message_id: str) -> tuple[Path, int]:
    """The segment and the byte where an event's messageId stands."""
    for path in sorted((data / "journal" / "0").glob("*.seg")):
        at = path.read_bytes().find(message_id.encode())
        if at >= 0:
            return path, at
    raise AssertionError(f"{message_id} is in no segment")


def notice(hookline: Hookline, kind: str) -> dict[str, object] | None:
    """The open notice of a kind."""
    items = hookline.api("GET", f"notices?state=open&kind={kind}").json["items"]
    return dict(items[0]) if items else None


def test_flipped_bytes_stop_nothing_but_their_events(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """In delivered events, in one that waits, in the end file, while stopped: the others are sent, and it is told."""
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"deliver.retry_max": "500ms"}).start()
    delivered = [hookline.track() for _ in range(5)]
    for each in delivered:
        receiver.wait_for(each)
    receiver.reply_with(503)
    waiting = [hookline.track() for _ in range(5)]
    for each in waiting:
        wait_until(lambda id=each: hookline.status_at(id, "crm").get("attempts"), what="tried")  # type: ignore[misc]
    hookline.stop()
    for each in (delivered[2], waiting[2]):
        flip(*place_of(hookline.data, each))
    flip(hookline.data / "journal" / "0" / "end", 3)
    receiver.reply_with(200)
    before = {each: len(receiver.of(each)) for each in delivered}
    with hookline:
        for each in [hookline.track(), *waiting[:2], *waiting[3:]]:
            hookline.wait_status(each, "crm", "delivered")
        wait_until(lambda: "2 events" in str(notice(hookline, "journal_damaged")), what="the notice of both")
    assert {each: len(receiver.of(each)) for each in delivered} == before
    assert "Traceback" not in hookline.log


def test_a_flip_while_running_stops_nothing(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """In the segment that is being written, before and behind what was read: new events are sent, restarts go well."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        sent = [hookline.track() for _ in range(3)]
        for each in sent:
            receiver.wait_for(each)
        flip(*place_of(hookline.data, sent[1]))
        path, _ = place_of(hookline.data, sent[2])
        flip(hookline.data / "journal" / "0" / "end", 0)
        flip(path, 8)  # the segment's own head
        receiver.wait_for(hookline.track())
        os.kill(hookline.role("deliver"), 9)
        receiver.wait_for(hookline.track())
        assert "deliver_ended" not in hookline.log or "Traceback" not in hookline.log
