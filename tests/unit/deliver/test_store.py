"""deliver.db: one transaction per checkpoint, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.connections.model import WEBHOOKS_MAX
from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.sqlite import engine
from hookline.deliver.lanes.delivery import ACCEPTED, ALL_URLS, ASKED_TO_WAIT, moved_mask
from hookline.deliver.store import writer as module
from hookline.deliver.store.batch import (
    AttemptRow,
    Batch,
    BlockRow,
    CheckpointRow,
    DeadLetterRow,
    ErasureRow,
    LaneRow,
    Look,
    NewsRow,
    RangeRow,
    RemarkRow,
    ReplayRow,
    Requeue,
    RetryRow,
)
from hookline.deliver.store.retry_rows import values_of_position
from hookline.deliver.store.writer import DeliverStore
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.outcomes.reader import NEVER_MS, RetryBacklog
from hookline.replays.dead_letters import DeadLetterAction, DeadLetterFilter
from hookline.replays.offset_set import OffsetSet
from tests.unit.conftest import LocationOf

MASKS = list(
    enumerate(
        (ALL_URLS, 0b1, 0b10, 0b101, 0b100 | 0b10 << WEBHOOKS_MAX, 0b1 | ASKED_TO_WAIT, 0b11 | ACCEPTED | ASKED_TO_WAIT)
    )
)
MOVED = (2, None, 0, 1)


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """A new deliver database."""
    ensure(location_of("deliver"), "deliver")
    return location_of("deliver")


@pytest.fixture
def store(location: DatabaseLocation) -> Iterator[DeliverStore]:
    """The store on it."""
    opened = DeliverStore(location)
    yield opened
    opened.close()


@pytest.fixture
def reader(location: DatabaseLocation) -> Iterator[Connection]:
    """What another process sees."""
    connection = connect(location, read_only=True)
    yield connection
    connection.close()


def retry(offset: int, due_ms: int = 100, *, lane: int = 1, first_at_ms: int = 50, attempt: int = 1) -> RetryRow:
    """A retry row of partition 0."""
    return RetryRow(lane, 0, offset, attempt, first_at_ms, due_ms, 31)


def dead_letter(offset: int, at_ms: int = 100, status: str = "failed", http_status: int = 401) -> DeadLetterRow:
    """A dead letter of lane 1."""
    outcome = "refused"
    return DeadLetterRow(
        1, "crm", 0, offset, f"m{offset}", "website", "track", status, 1, at_ms, outcome, http_status, "no"
    )


def commit(store: DeliverStore, **parts: object) -> Batch:
    """Commit a batch with these parts; retries as rows."""
    batch = Batch()
    for row in parts.pop("retries", ()):  # type: ignore[attr-defined]
        batch.retry(row)
    for name, value in parts.items():
        setattr(batch, name, value)
    store.commit(batch)
    return batch


def test_retry_rows_by_time_and_by_age(store: DeliverStore) -> None:
    """Due ones come longest waiting first, the oldest events by offset, overdue ones by their first attempt."""
    commit(
        store, retries=[retry(1, 300, first_at_ms=10), retry(2, 100), retry(3, 200), retry(4, 900), retry(9, lane=2)]
    )
    assert [row.offset for row in store.rows.first_due(1, 9)] == [2, 3, 1, 4]
    assert [row.offset for row in store.rows.first_due(1, 2)] == [2, 3]
    oldest, overdue = store.rows.for_probe(1, 2, 0, 50)
    assert [row.offset for row in oldest] == [1, 2]
    assert [row.offset for row in overdue] == [1]
    assert store.rows.for_probe(1, 2, 0, None).overdue == []
    assert (store.rows.row(1, 4), store.rows.row(2, 4)) == (retry(4, 900), None)
    assert store.reader.backlogs() == {1: RetryBacklog(4, 100), 2: RetryBacklog(1, 100)}


def test_a_row_whose_receiver_asked_to_wait_is_no_probe_before(store: DeliverStore) -> None:
    """A probe chooses it from its time on; one whose time is only ours, at any time."""
    commit(store, retries=[retry(1, 300)._replace(urls=ALL_URLS | ASKED_TO_WAIT), retry(2, 900)])
    assert [[row.offset for row in store.rows.for_probe(1, 9, now, None).oldest] for now in (299, 300)] == [[2], [1, 2]]


def test_many_questions_are_answered_as_each_by_itself(store: DeliverStore) -> None:
    """More of them than one statement takes, of every kind; a question without an answer has an empty one."""
    rows = [
        retry(offset, 10 * offset, lane=lane, first_at_ms=offset) for lane in range(40) for offset in range(lane % 5)
    ]
    batch = commit(store, retries=rows)
    for lane in range(40):
        batch.looks |= {Look("first_due", lane): (3,), Look("probe", lane): (9, 2), Look("overdue", lane): (2, 9)}
        batch.looks[Look("row", lane, 3)] = values_of_position(3)
    store.look(batch)
    for lane in range(40):
        assert batch.found[Look("first_due", lane)] == store.rows.first_due(lane, 3)
        oldest, overdue = store.rows.for_probe(lane, 2, 9, 2)
        assert (batch.found[Look("probe", lane)], batch.found[Look("overdue", lane)]) == (oldest, overdue)
        row = store.rows.row(lane, 3)
        assert batch.found[Look("row", lane, 3)] == ([] if row is None else [row])


def test_the_last_word_of_a_batch_counts(store: DeliverStore) -> None:
    """A row that moved and then was settled is gone; one that was settled and came again is there."""
    batch = Batch()
    batch.retry(retry(1))
    batch.settle(1, 0, 1)
    batch.settle(1, 0, 2)
    batch.retry(retry(2, 500))
    store.commit(batch)
    assert [(row.offset, row.due_ms) for row in store.rows.oldest(1, 9)] == [(2, 500)]
    commit(store, settled={(1, 0, 2)})
    assert store.rows.oldest(1, 9) == []


def test_places_are_replaced(store: DeliverStore) -> None:
    """There is one place per partition and one row per lane and partition; lanes that ended leave nothing."""
    rows = {(n, 0): LaneRow(n, 0, 5, "open", b"x") for n in (1, 2, 3)}
    commit(store, checkpoints=[CheckpointRow(0, 5, 1, b"a")], lanes=rows, retries=[retry(4, lane=3)])
    commit(store, checkpoints=[CheckpointRow(0, 9, 2, b"b")], lanes_gone={(1, 0)}, lanes_ended={3})
    assert store.reader.checkpoint(0) == (9, 2, b"b")
    assert store.reader.checkpoint(1) is None
    assert store.reader.lanes() == [(2, 0, 5, "open", b"x")]
    assert store.reader.backlogs() == {}


def test_a_batch_that_fails_writes_nothing(store: DeliverStore, reader: Connection) -> None:
    """All or nothing, and the next commit works."""
    broken = AttemptRow(0, 1, 1, "crm", None, "u", 1, "refused", 400, "", 1, None)  # type: ignore[arg-type]
    with pytest.raises(engine.IntegrityError):
        commit(store, checkpoints=[CheckpointRow(0, 5, 1, b"")], retries=[retry(1)], attempts=[broken])
    assert store.reader.checkpoint(0) is None
    assert store.reader.backlogs() == {}
    commit(store, checkpoints=[CheckpointRow(0, 6, 1, b"")])
    assert reader.execute("SELECT next_offset FROM checkpoints").fetchall() == [(6,)]


def test_a_recall_brings_back_what_failed_since(store: DeliverStore, reader: Connection) -> None:
    """Dead letters of the run become retry rows that are due at once; expired and earlier ones stay."""
    commit(store, dead_letters=[dead_letter(1, 99), dead_letter(2, 100), dead_letter(3, 150, "expired")])
    batch = commit(store, dead_letters=[dead_letter(4, 160)], requeues=[Requeue(1, 100)])
    assert [(row.offset, row.attempt, row.due_ms, row.urls) for row in store.rows.oldest(1, 9)] == [
        (2, 1, 0, 31),
        (4, 1, 0, 31),
    ]
    assert batch.requeued == {1: 2}
    assert reader.execute('SELECT "offset" FROM dead_letters ORDER BY 1').fetchall() == [(1,), (3,)]


def test_a_wish_to_try_a_lane_makes_all_its_rows_due(store: DeliverStore) -> None:
    """Also those whose receiver asked to wait; what waits for its user's turn keeps waiting, as do other lanes."""
    asked = retry(2, 900)._replace(urls=ALL_URLS | ASKED_TO_WAIT)
    commit(store, retries=[retry(1, 300), asked, retry(3, NEVER_MS), retry(9, 300, lane=2)])
    commit(store, actions=[DeadLetterAction(1, DeadLetterFilter(), try_lane=1)])
    assert [row.due_ms for row in store.rows.oldest(1, 9)] == [0, 0, NEVER_MS]
    assert [row.due_ms for row in store.rows.oldest(2, 9)] == [300]
    assert [row.offset for row in store.rows.for_probe(1, 9, 100, None).oldest] == [1, 2, 3]


def test_what_was_refused_for_itself_comes_back_only_with_a_run_of_refusals(store: DeliverStore) -> None:
    """A run of the receiver's own failures leaves a 422 among them where it is; one of refusals brings back both."""
    commit(
        store,
        dead_letters=[dead_letter(1, http_status=422), dead_letter(2, http_status=301)],
        requeues=[Requeue(1, 100)],
    )
    assert [row.offset for row in store.rows.oldest(1, 9)] == [2]
    commit(store, requeues=[Requeue(1, 100, refusals=True)])
    assert [row.offset for row in store.rows.oldest(1, 9)] == [1, 2]


def test_a_replays_letter_outlives_its_recall(store: DeliverStore, reader: Connection) -> None:
    """It took a live letter's place: given up again it is replaced, and cancelled it is still there."""
    replay = ReplayRow(9, "running", 1)
    commit(store, dead_letters=[dead_letter(2)])
    commit(store, dead_letters=[dead_letter(2, 100)._replace(lane=9)], requeues=[Requeue(9, 100)], replays={9: replay})
    assert [row.offset for row in store.rows.oldest(9, 9)] == [2]
    assert reader.execute('SELECT lane, "offset" FROM dead_letters').fetchall() == [(9, 2)]
    commit(store, dead_letters=[dead_letter(2, 200)._replace(lane=9)], settled=[(9, 0, 2)], replays={9: replay})
    assert reader.execute("SELECT lane, at FROM dead_letters").fetchall() == [(9, 200)]
    commit(store, requeues=[Requeue(9, 200)], replays={9: replay})
    commit(store, lanes_ended={9}, replays={9: replay._replace(state="cancelled")})
    assert reader.execute("SELECT lane, at FROM dead_letters").fetchall() == [(9, 200)]
    assert reader.execute("SELECT failed FROM replays").fetchall() == [(0,)]


def test_a_replay_is_done_when_all_of_its_own_partitions_are(store: DeliverStore) -> None:
    """One that was added to the journal after it was asked for is none of them."""
    commit(store, replays={7: ReplayRow(7, "running", 100)})
    for partitions, state in (([0, 2], "running"), ([1], "done")):
        rows = {(7, partition): LaneRow(7, partition, 5, "finished", b"") for partition in partitions}
        commit(store, lanes=rows, parts_done=[(200, 7, 2)])
        assert store.reader.replay_states() == {7: state}


def test_a_letter_that_came_later_replaces_no_replays_letter(store: DeliverStore, reader: Connection) -> None:
    """A replay may run beside the live lane: each has given the event up, and each has its letter."""
    replay = ReplayRow(9, "running", 1)
    commit(store, dead_letters=[dead_letter(2, 90)])
    both = [dead_letter(2, 100)._replace(lane=9), dead_letter(2, 101)]
    commit(store, dead_letters=both, replays={9: replay})
    assert reader.execute("SELECT lane, at FROM dead_letters ORDER BY id").fetchall() == [(9, 100), (1, 101)]


@pytest.mark.parametrize(("since", "urls"), [(1, 0b01), (2, 0b11)])
def test_a_url_that_accepted_is_not_called_back(store: DeliverStore, since: int, urls: int) -> None:
    """With fan-out ``all``: a refusal before an earlier requeue says nothing, for the URL was asked again since."""
    not_delivered = (
        None if since == 1 else 9
    )  # after the first attempt: then it was called back, and URL b has accepted
    first = AttemptRow(0, 2, 1, "crm", 1, "a", 70, "refused", 400, "", 1, not_delivered)
    second = AttemptRow(0, 2, 1, "crm", 2, "a", 80, "refused", 401, "", 1, 9)
    letter = dead_letter(2)._replace(attempts=3)
    attempts = [first, first._replace(url="b"), second]
    commit(store, attempts=attempts, dead_letters=[letter], requeues=[Requeue(1, 100)], requeue_urls={1: '["a", "b"]'})
    assert [row.urls for row in store.rows.oldest(1, 9)] == [urls]


def test_a_recall_does_not_begin_the_window_anew(store: DeliverStore) -> None:
    """The window of what comes back counts from its first attempt."""
    attempt = AttemptRow(0, 2, 1, "crm", 1, "u", 70, "refused", 401, "", 1, None)
    commit(
        store, attempts=[attempt, attempt._replace(at_ms=90)], dead_letters=[dead_letter(2)], requeues=[Requeue(1, 100)]
    )
    assert [row.first_at_ms for row in store.rows.oldest(1, 9)] == [70]


def test_dead_letters_are_bounded_per_destination(
    store: DeliverStore, reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit the oldest go, of that destination only, and ids are never given again."""
    monkeypatch.setattr(module, "DEAD_LETTERS_MAX", 3)
    other = dead_letter(0)._replace(destination="mail")
    commit(store, dead_letters=[other, *(dead_letter(n) for n in range(1, 6))])
    rows = reader.execute('SELECT destination, "offset", id FROM dead_letters ORDER BY id').fetchall()
    assert [row[:2] for row in rows] == [("mail", 0), ("crm", 3), ("crm", 4), ("crm", 5)]
    commit(store, dead_letters=[dead_letter(6)])
    assert reader.execute("SELECT max(id) FROM dead_letters").fetchone()[0] > rows[-1][2]


@pytest.mark.parametrize("per_trim", [1, 100])
def test_answers_are_bounded_per_destination(
    store: DeliverStore, reader: Connection, monkeypatch: pytest.MonkeyPatch, per_trim: int
) -> None:
    """One receiver that refuses everything could fill the disk. The oldest answers go, of that destination only, a few
    with each checkpoint; what became of the events stays."""
    monkeypatch.setattr(module, "ANSWERS_KEPT_MAX", 3)
    monkeypatch.setattr(module, "ATTEMPTS_PER_TRIM", 2)
    monkeypatch.setattr(module, "ANSWERS_PER_TRIM", per_trim)
    answered = AttemptRow(0, 0, 1, "crm", 1, "u", 0, "refused", 400, "no", 1, None, "HTTP/1.1 400")
    rows = [answered._replace(offset=n, at_ms=n) for n in range(8)]
    commit(store, attempts=[*rows, answered._replace(destination="mail")])
    for _ in range(3):
        commit(store)
    left = reader.execute('SELECT destination, "offset", outcome, error, head FROM attempts ORDER BY id').fetchall()
    gone, kept = ("refused", "", None), ("refused", "no", "HTTP/1.1 400")
    assert left == [*(("crm", n, *(kept if n > 4 else gone)) for n in range(8)), ("mail", 0, *kept)]


def test_small_blocks_are_joined(store: DeliverStore, reader: Connection) -> None:
    """At a low rate too there is no row per event; buckets and full blocks are kept apart."""
    for offset in (5, 3, 9):
        commit(store, blocks=[BlockRow(0, offset, offset, 1, bytes([offset]) * 24)])
    commit(store, blocks=[BlockRow(0, 1 << BUCKET_SHIFT, 1 << BUCKET_SHIFT, 1, b"z" * 24)])
    commit(store, blocks=[BlockRow(0, 10, 900, 1, b"y" * module.SMALL_BLOCK_BYTES)])
    rows = reader.execute(
        "SELECT first_offset, last_offset, length(entries) FROM outcome_blocks ORDER BY id"
    ).fetchall()
    assert rows == [(3, 9, 72), (1 << BUCKET_SHIFT, 1 << BUCKET_SHIFT, 24), (10, 900, module.SMALL_BLOCK_BYTES)]


def test_what_the_journal_no_longer_keeps_is_forgotten(store: DeliverStore, reader: Connection) -> None:
    """Blocks, attempts and dead letters of dropped events go."""
    attempts = [AttemptRow(0, n, 1, "crm", 1, "u", 1, "refused", 400, "", 1, None) for n in (1, 50)]
    blocks = [BlockRow(0, 0, 9, 1, b"a" * 9_000), BlockRow(0, 10, 60, 1, b"b" * 9_000)]
    commit(store, attempts=attempts, blocks=blocks, dead_letters=[dead_letter(1), dead_letter(50)])
    store.forget_below(0, 50)
    assert reader.execute("SELECT first_offset FROM outcome_blocks").fetchall() == [(10,)]
    assert reader.execute('SELECT "offset" FROM attempts').fetchall() == [(50,)]
    assert reader.execute('SELECT "offset" FROM dead_letters').fetchall() == [(50,)]


def test_an_answer_about_several_events_goes_with_the_first_person_of_them(
    store: DeliverStore, reader: Connection
) -> None:
    """Their rows have the same words in attempts and dead letters, also where the attempt of the person has lost its
    own. What was said of another request stays, and so does what became of the events."""
    words, head = "no person-of-the-test", "HTTP/1.1 500\r\nX-Echo: person-of-the-test"
    row = AttemptRow(0, 1, 1, "crm", 2, "u", 9_999, "server_error", 500, words, 30, None, head)
    together = [row, row._replace(offset=2, at_ms=10_001), row._replace(partition=1, offset=7, at_ms=10_002)]
    others = [
        row._replace(offset=3, at_ms=20_000),
        row._replace(offset=4, milliseconds=31),
        row._replace(offset=5, lane=2),
        row._replace(offset=6, error="another", head=None),
    ]
    letters = [dead_letter(n)._replace(attempts=2, error=words) for n in (1, 2, 3)]
    commit(store, attempts=[*together, *others], dead_letters=letters)
    commit(store, erasures=[ErasureRow(1, 1, 1, 0, [(0, 1)], {0: OffsetSet([1])})])
    query = 'SELECT partition, "offset", error, head FROM attempts ORDER BY id'
    kept = [(0, each.offset, each.error, each.head) for each in others]
    assert reader.execute(query).fetchall() == [(0, 2, "", None), (1, 7, "", None), *kept]
    query = 'SELECT "offset", status, error FROM dead_letters ORDER BY id'
    assert reader.execute(query).fetchall() == [(2, "failed", None), (3, "failed", words)]


def test_a_dead_letter_loses_what_its_attempt_has_lost_before(store: DeliverStore, reader: Connection) -> None:
    """Of attempts the oldest answers go, of dead letters they stay: the request is the same."""
    row = AttemptRow(0, 1, 1, "crm", 1, "u", 100, "server_error", 500, "", 30, None)
    letters = [dead_letter(n)._replace(error="no person-of-the-test") for n in (1, 2)]
    commit(store, attempts=[row, row._replace(offset=2)], dead_letters=letters)
    commit(store, erasures=[ErasureRow(1, 1, 1, 0, [(0, 1)], {0: OffsetSet([1])})])
    assert reader.execute('SELECT "offset", error FROM dead_letters').fetchall() == [(2, None)]


def test_ranges_go_a_month_after_their_events(store: DeliverStore, reader: Connection) -> None:
    """Those of events that are kept stay however old, and new ones of events that are gone too: a notice tells them."""
    month = module.RANGES_KEPT_MS
    rows = [(0, 0, 9), (0, 0, 40), (1, 0, 9), (0, 25, 9), (0, 20, month + 10)]
    ranges = [RangeRow(1, "crm", p, first, first + 9, "discarded", at, "") for p, first, at in rows]
    commit(store, ranges=ranges)
    store.forget_below(0, 30)
    left = reader.execute("SELECT partition, first_offset, at FROM ranges ORDER BY id").fetchall()
    assert left == rows[1:]


def test_versions_that_later_ones_replaced_go_with_their_events(store: DeliverStore, reader: Connection) -> None:
    """The one that is in force where the journal begins stays, of every partition its own."""
    versions = [(partition, number, number * 10) for partition in (0, 1) for number in range(1, 101)]
    commit(store, versions=versions)
    store.forget_below(0, 985)
    query = "SELECT version FROM versions_in_force WHERE partition = ? ORDER BY version"
    assert [row[0] for row in reader.execute(query, (0,))] == [98, 99, 100]
    assert len(reader.execute(query, (1,)).fetchall()) == 100


def test_remarks_go_with_their_events(store: DeliverStore) -> None:
    """One is kept for a lane and event, the last one said; an erasure and retention take it away."""
    batch = Batch()
    batch.remarks += [RemarkRow(1, 0, 5, "first"), RemarkRow(1, 0, 5, "last"), RemarkRow(1, 0, 9, "kept")]
    batch.remarks += [RemarkRow(1, 0, 7, "erased"), RemarkRow(2, 1, 5, "elsewhere")]
    store.commit(batch)
    remark = store.reader.attempts.remark
    assert (remark(1, 0, 5), remark(2, 0, 5)) == ("last", None)
    erasing = Batch()
    erasing.erasures.append(ErasureRow(1, 1, 1, 0, [(0, 7)], {0: OffsetSet([7])}))
    store.commit(erasing)
    store.forget_below(0, 9)
    assert [remark(1, 0, 5), remark(1, 0, 7), remark(1, 0, 9), remark(2, 1, 5)] == [None, None, "kept", "elsewhere"]
    assert not store.reader.attempts.of_event(1, 0, 7)


def test_news_of_sinks_are_bounded(store: DeliverStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers go on behind the last row that they have seen; old rows make room."""
    monkeypatch.setattr(module, "NEWS_KEPT_MAX", 3)
    for number in range(5):
        batch = Batch()
        batch.news.append(NewsRow("wh", number, f"sentence {number}"))
        store.commit(batch)
    found = store.reader.sink_news(0)
    assert [(each.destination, each.at_ms, each.sentence) for each in found] == [
        ("wh", number, f"sentence {number}") for number in (2, 3, 4)
    ]
    assert store.reader.sink_news(found[0].id) == found[1:]


def test_another_owner_writes_the_remarks_of_its_partitions() -> None:
    """What a sink said of itself is nobody's partition and stays."""
    batch = Batch()
    batch.remarks += [RemarkRow(1, 0, 5, "lost"), RemarkRow(1, 1, 5, "mine")]
    batch.news.append(NewsRow("wh", 1, "a table"))
    batch.leave_out(lambda partition: partition == 0)
    assert [each.remark for each in batch.remarks] == ["mine"]
    assert len(batch.news) == 1


def test_masks_follow_urls_that_move(store: DeliverStore, reader: Connection) -> None:
    """Those that are saved as those that are not, of the lane and the partition alone, to the same end."""
    before = [RetryRow(lane, part, at, 1, 5, 9, mask) for lane in (1, 2) for part in (0, 1) for at, mask in MASKS]
    batch = Batch()
    for row in before:
        batch.retry(row)
    store.commit(batch)
    late = RetryRow(1, 0, 900, 1, 5, 9, 0b10 | ASKED_TO_WAIT)
    batch = Batch()
    batch.retry(late)
    batch.move_urls(1, 0, MOVED)
    assert batch.rewritten == {1}
    store.commit(batch)
    expected = {
        (row.lane, row.partition, row.offset): moved_mask(row.urls, MOVED)
        if (row.lane, row.partition) == (1, 0)
        else row.urls
        for row in (*before, late)
    }
    found = reader.execute('SELECT lane, partition, "offset", urls FROM retries').fetchall()
    assert {(lane, part, at): mask for lane, part, at, mask in found} == expected
