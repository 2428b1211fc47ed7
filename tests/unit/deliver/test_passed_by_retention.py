"""What retention takes from a destination that stands still is on the record at once, not when it goes on."""

from __future__ import annotations

import time

from hookline.connections.model import Pause
from hookline.journal.local.disk import Disk
from hookline.journal.local.retention import drop_expired
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_pausing import pause, resume

PADDING = b'{"type":"track","event":"Order","userId":"u1","properties":{"x":"%b"}}' % (b"x" * 8_000)


def drop_all_but_the_last(rig: Rig) -> int:
    """Let retention have all the segments that it may; return where the journal begins now."""
    drop_expired([rig.folder / "journal" / "0"], Disk(), 0, 0)
    rig.loop.run_until_complete(rig.role._retain())
    rig.checkpoint()
    return rig.role.journal.start(0)


def ranges(rig: Rig) -> list[tuple[int, int, str]]:
    """The range records of the one destination."""
    query = "SELECT first_offset, last_offset, status FROM ranges ORDER BY id"
    return [tuple(row) for row in rig.role.store._read.execute(query)]


def test_a_paused_lane_is_told_of_once(rig: Rig) -> None:
    """One record from the first event that it had not read to where the journal begins; and it goes on from there."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.store.pause("crm", Pause(since=int(time.time() * 1000)), "test", rig.appender.ends)
    rig.follow()
    rig.append(*(rig.record(f"m{number}", body=PADDING) for number in range(50)))
    rig.turn()
    rig.checkpoint()
    start = drop_all_but_the_last(rig)
    assert ranges(rig) == [(0, start - 1, "expired_by_retention")]
    rig.loop.run_until_complete(rig.role._retain())
    rig.store.resume("crm", None, "test", rig.appender.ends)
    rig.follow()
    rig.come_to_rest()
    assert ranges(rig) == [(0, start - 1, "expired_by_retention")]


def test_events_that_wait_for_a_retry_are_told_of_once(rig: Rig) -> None:
    """Their rows are closed when they are due; the record is there before."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(rig.record(f"m{number}", body=PADDING) for number in range(4)))
    rig.turn()
    rig.answer_all(503)
    rig.append(*(rig.record(f"n{number}", body=PADDING) for number in range(50)))
    rig.turn()
    rig.checkpoint()
    rig.answer_all(200)
    rig.checkpoint()
    start = drop_all_but_the_last(rig)
    assert (0, start - 1, "expired_by_retention") in ranges(rig)
    told = len(ranges(rig))
    rig.role._forgotten.clear()
    rig.loop.run_until_complete(rig.role._retain())
    rig.checkpoint()
    assert len(ranges(rig)) == told


def test_what_a_cancelled_replay_delivered_is_counted_once(rig: Rig) -> None:
    """The ring still knows it when its blocks are gone with the events, and a restart takes it for nothing new."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{number}" for number in range(300)))
    rig.turn()
    rig.answer_all(200)
    replay = rig.replay(rate=1.0)
    rig.follow()
    rig.answer_all(200)
    rig.want(replay, "cancelled")
    rig.checkpoint()
    counted = rig.replay_row(replay)
    assert counted[1] > 0
    rig.append(*(rig.record(f"n{number}", body=PADDING) for number in range(50)))
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    assert drop_all_but_the_last(rig) > 300
    for _ in range(2):
        rig.restart()
        rig.checkpoint()
    assert rig.replay_row(replay) == counted


def test_a_row_that_comes_up_before_the_next_look_is_on_record(rig: Rig) -> None:
    """Retention was at the journal a moment ago, and the lane that waited is resumed."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(rig.record(f"m{number}", body=PADDING) for number in range(4)))
    rig.turn()
    rig.answer_all(503)
    rig.checkpoint()
    pause(rig)
    rig.append(*(rig.record(f"n{number}", body=PADDING) for number in range(50)))
    rig.turn()
    rig.checkpoint()
    rig.pass_time(3600)
    drop_expired([rig.folder / "journal" / "0"], Disk(), 0, 0)
    resume(rig)
    for _ in range(5):
        rig.pass_time(1)
        rig.checkpoint()
        rig.answer_all()
    rig.loop.run_until_complete(rig.role._retain())
    rig.checkpoint()
    lost = [offset for first, last, _ in ranges(rig) for offset in range(first, last + 1)]
    assert lost.count(0) == 1
    assert {status for *_, status in ranges(rig)} == {"expired_by_retention"}
