"""Slots: what each destination came to in ten seconds, counted once, whatever fails and whoever restarts."""

from __future__ import annotations

from hookline.deliver.work import LaneCounts
from hookline.outcomes.progress import ENTRY, URL_BITS
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, TimeBucket, read_time_buckets
from tests.unit.deliver.rig import Rig, destination, source


def begin(rig: Rig) -> None:
    """Start with two destinations in the middle of a time bucket."""
    rig.change(source(), destination("crm"), destination("erp"))
    rig.start()


def end_slot(rig: Rig) -> TimeBucket:
    """Let the time bucket end and return what was reported of it."""
    rig.checkpoint()
    rig.clock.seconds += TIME_BUCKET_SECONDS
    rig.role.reports.gather()()
    return read_time_buckets(rig.folder / "run")[-1]


def test_deliveries_and_their_times(rig: Rig) -> None:
    """Every delivery counts in its time bucket, with its time in the right bucket, and in the next time bucket not
    again."""
    begin(rig)
    rig.append("m1", "m2")
    rig.turn()
    for milliseconds in (1, 3, 20, 7_000):
        rig.answer(rig.network.waiting[0], milliseconds=milliseconds)
    first, second = end_slot(rig), end_slot(rig)
    assert {id: (each.delivered, each.attempted) for id, each in first.destinations.items()} == {
        "crm": (2, 2),
        "erp": (2, 2),
    }
    assert sum(first.response) == first.delivered == 4
    assert [sum(each.response[at] for each in first.destinations.values()) for at in (0, 2, 4, 12)] == [1, 1, 1, 1]
    assert first.sources["website"].events == 2
    assert (second.delivered, second.destinations, second.sources) == (0, {}, {})


def test_failures_retries_and_what_is_given_up(rig: Rig) -> None:
    """A failure is a first attempt too; the delivery that follows it later is none."""
    begin(rig)
    rig.append("m1")
    rig.turn()
    rig.answer_all(500, "crm")
    rig.answer_all(404, "erp")
    failed = end_slot(rig).destinations
    assert (failed["crm"].attempted, failed["crm"].failures, failed["crm"].retries, failed["crm"].waiting) == (
        1,
        1,
        1,
        1,
    )
    assert (failed["erp"].attempted, failed["erp"].not_delivered, failed["erp"].waiting) == (1, 1, 0)
    rig.come_to_rest()
    delivered = end_slot(rig).destinations["crm"]
    assert (delivered.delivered, delivered.attempted, delivered.failures) == (1, 0, 0)


def test_what_waits_and_what_filters_keep(rig: Rig) -> None:
    """A destination that gets nothing is told with what waits for it."""
    begin(rig)
    rig.role.feeder.detach(rig.lane("erp"))
    rig.lane("erp").paused = True
    rig.append("m1", "m2", "m3")
    rig.turn()
    rig.answer_all(destination="crm")
    time_bucket = end_slot(rig)
    assert time_bucket.destinations["erp"].waiting == 3
    assert (time_bucket.destinations["crm"].waiting, time_bucket.waiting) == (0, 3)


def test_only_the_last_slots_are_kept(rig: Rig) -> None:
    """The report stays small, however long the role runs."""
    begin(rig)
    times = [end_slot(rig).at for _ in range(5)]
    assert [time_bucket.at for time_bucket in read_time_buckets(rig.folder / "run")] == times[-3:]
    assert times == sorted(set(times))


def test_a_report_that_cannot_be_read_is_none(rig: Rig) -> None:
    """A broken or missing file is a gap and no error."""
    assert read_time_buckets(rig.folder / "run") == []
    (rig.folder / "run" / "time-buckets-deliver.json").write_bytes(b'[{"at": "soon"}]')
    assert read_time_buckets(rig.folder / "run") == []


def test_only_successes_of_lanes_are_delivered() -> None:
    """Partial successes, failures beside a success, and repeats that were dropped are not deliveries."""
    results = [(7, 200), (7, 204), (7, 1200), (7, 500), (7, 1), (0, 200)]
    counts = LaneCounts()
    counts.add_results(b"".join(ENTRY.pack(1, 1, lane << URL_BITS | 2, result, 9) for lane, result in results))
    counts.add_results(b"")
    assert {lane: counts.delivered for lane, counts in counts.take().items()} == {7: 2}
    assert counts.take() == {}
