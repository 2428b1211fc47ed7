"""The attempts of a destination: every one once, newest first, whatever it lies in and however it is paged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hookline.database.location import location_of
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.results import AttemptFilter, AttemptLog, Key, LoggedAttempt, attempt_key, id_of
from tests.unit.deliver.rig import Rig, destination, source

OF_SECOND_PARTITION = "u5"
"""A user whose events are in the last of two partitions."""
NEWEST: Key = (1 << 62, 0, 0, 0, 0)
Page = Callable[..., tuple[list[LoggedAttempt], Key | None]]


@pytest.fixture
def page(rig: Rig) -> Iterator[Page]:
    """Reads a page of crm's attempts."""
    log = AttemptLog(rig.folder, location_of(rig.settings, "deliver"))

    def read(
        limit: int = 100, before: Key = NEWEST, impatient: bool = False, **wanted: object
    ) -> tuple[list[LoggedAttempt], Key | None]:
        lanes = {rig.lane("crm").number}
        filter = AttemptFilter(**wanted)  # type: ignore[arg-type]
        found = log.newest("crm", lanes, filter, limit, before, lambda each: True, lambda: impatient)
        return found.attempts, found.after

    yield read
    log.close()


def live(rig: Rig, rounds: int = 12) -> int:
    """Events that fail, time out, are refused, succeed at once or later; return how many requests that was."""
    rig.change(source(), destination("crm", urls=2), destination("erp"))
    rig.start()
    for number in range(rounds):
        rig.append(*(f"m{number}-{each}" for each in range(3)))
        rig.turn()
        answers: tuple[int | Outcome, ...] = (200, 500, Outcome.TIMED_OUT, 404)
        rig.answer_all(answers[number % 4], "crm")
        rig.answer_all(200, "erp")
        if number % 3:
            rig.checkpoint()
        rig.pass_time(7.0)
    rig.come_to_rest()
    return sum(request.destination == "crm" for request in rig.network.sent)


def test_every_attempt_once_and_newest_first(rig: Rig, page: Page) -> None:
    """Failures and successes come in one order, and none is missing or there twice."""
    sent = live(rig)
    attempts, after = page(limit=10_000)
    keys = [attempt.key for attempt in attempts]
    # With two URLs that accept, the second success is not recorded: the first has ended the delivery.
    delivered = sum(attempt.outcome == "success" for attempt in attempts)
    ids = [f"m{number}-{each}" for number in range(12) for each in range(3)]
    assert delivered == sum(rig.status_at(id, "crm") == "delivered" for id in ids)
    assert sent - delivered <= len(attempts) <= sent
    assert after is None
    assert keys == sorted(set(keys), reverse=True)
    assert {attempt.outcome for attempt in attempts} == {"success", "server_error", "timed_out", "refused"}


@pytest.mark.parametrize("impatient", [False, True])
def test_pages_make_up_the_whole(rig: Rig, page: Page, impatient: bool) -> None:
    """Small pages, and such as end before they found anything, lead through all attempts."""
    live(rig)
    whole, _ = page(limit=10_000)
    paged: list[LoggedAttempt] = []
    before: Key | None = NEWEST
    while before is not None:
        found, before = page(limit=3, before=before, impatient=impatient)
        assert before is None or attempt_key(id_of(before)) == before
        paged += found
    assert paged == whole


def test_filters(rig: Rig, page: Page) -> None:
    """By outcome, status and time, each as if the others had been left out by hand."""
    live(rig)
    whole, _ = page(limit=10_000)
    middle = whole[len(whole) // 2].at_ms
    for wanted, meant in (
        ({"outcome": "success"}, [each for each in whole if each.outcome == "success"]),
        ({"outcome": "timed_out"}, [each for each in whole if each.outcome == "timed_out"]),
        ({"http_status": 404}, [each for each in whole if each.http_status == 404]),
        ({"since_ms": middle}, [each for each in whole if each.at_ms >= middle]),
        ({"until_ms": middle}, [each for each in whole if each.at_ms < middle]),
    ):
        assert page(limit=10_000, **wanted)[0] == meant, wanted
        assert meant


def test_what_a_kill_left_is_found_by_its_own_time(rig: Rig, page: Page) -> None:
    """It is saved by the next start, an hour later, as what it was."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0", "m1")
    rig.turn()
    rig.checkpoint()
    rig.answer_all(200)
    rig.kill()
    rig.clock.seconds += 3_600
    rig.start()
    rig.checkpoint()
    whole, _ = page()
    assert len(whole) == 2
    assert page(until_ms=whole[0].at_ms + 1)[0] == whole
    assert page(limit=1, before=page(limit=1)[1])[0] == whole[1:]


@pytest.mark.parametrize("partitions", [2])
def test_a_dropped_repeat_dates_no_results(rig: Rig, page: Page) -> None:
    """What is written down of it is where it lies, and no time: in a second partition that is a large number."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(rig.record(f"m{number}", user_key=OF_SECOND_PARTITION) for number in (0, 1, 0)))
    rig.turn()
    rig.come_to_rest()
    whole, _ = page()
    assert [attempt.offset for attempt in whole] == [1, 0]
    assert page(until_ms=whole[0].at_ms + 1)[0] == whole
    reader = DeliverReader(location_of(rig.settings, "deliver"))
    assert reader.totals()["crm"].since_ms == whole[0].at_ms + 1
    reader.close()


def test_each_is_found_by_its_id(rig: Rig, page: Page) -> None:
    """And not by that of another destination's."""
    live(rig, rounds=4)
    log = AttemptLog(rig.folder, location_of(rig.settings, "deliver"))
    lanes = {rig.lane("crm").number}
    for attempt in page()[0]:
        key = attempt_key(attempt.id)
        assert key is not None
        assert log.get("crm", lanes, key) == attempt
        assert log.get("erp", {rig.lane("erp").number}, key) is None
    assert log.get("crm", lanes, (1, 0, 1, 1, 1)) is None
    log.close()


def test_the_number_of_a_success(rig: Rig, page: Page) -> None:
    """It comes after the failures of its event."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m1")
    rig.turn()
    rig.answer_all(500)
    rig.checkpoint()
    rig.come_to_rest()
    log = AttemptLog(rig.folder, location_of(rig.settings, "deliver"))
    assert [(each.outcome, log.number(each)) for each in page()[0]] == [("success", 2), ("server_error", 1)]
    log.close()


@pytest.mark.parametrize("text", ["", "1", "1-2-3-4", "1-2-3-4-x", "1-2-3-4--5", f"1-0-{1 << 64}-1-1", "²-1-1-1-1"])
def test_what_is_no_id(text: str) -> None:
    """Nothing but what ``id_of`` writes is read."""
    assert attempt_key(text) is None
