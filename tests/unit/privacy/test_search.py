"""Finding a person's data: every id that leads to another, every place, and nothing of anybody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.index.duplicates import Duplicates
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import FORMAT_VERSION, Record, Rejection, fingerprint
from hookline.privacy.search import message_ids, search, synced


def event(message_id: str, source: str = "site", type_: str = "track", **fields: Any) -> Record:
    """A stored event; ``rejected`` makes it an item that was refused without being read."""
    rejected = fields.pop("rejected", None)
    body = json.dumps(rejected if rejected is not None else fields).encode()
    return Record(
        *(FORMAT_VERSION, False, 1_000, source, type_, message_id, fingerprint(source, message_id)),
        *("" if rejected is not None else fields.get("userId") or fields["anonymousId"],),
        *("2026-01-01T00:00:00.000Z", "sdk", body),
        rejection=None if rejected is None else Rejection("malformed_json", "Not JSON."),
    )


class Journal:
    """A journal of one partition, and its index where a test wants one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, *records: Record) -> None:
        """Append."""

        async def append() -> None:
            appender = LocalAppender(self.folder / "journal", retention_seconds=86_400, retention_bytes=2**30)
            await appender.append(records)
            await appender.close()

        asyncio.run(append())

    def seal(self, run_events: int) -> None:
        """Index everything in runs of so many events; the rest stays in the journal alone."""
        reader = LocalReader(self.folder / "journal")
        index = Duplicates(
            self.folder / "index" / "0", reader, 0, window_seconds=60, bytes_max=2**30, run_events=run_events
        )
        for group in reader.read(0, 0):
            for at, record in enumerate(group.records, group.first_offset):
                index.feed([record], at)
                while index.frozen_ranges:
                    index.work()
        index.close()
        reader.close()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


STORY = (
    event("m0", anonymousId="a1"),
    event("m1", userId="u2", anonymousId="a2"),
    event("m2", type_="alias", userId="u1", previousId="a1"),
    event("m3", "app", userId="u1", anonymousId="a3"),
    event("m4", "app", anonymousId="a3"),
    event("m5", rejected={"bytes": 9, "start": '{"userId": "u1", "tra'}),
    event("m6", rejected={"bytes": 9, "start": '{"userId": "u2", "tra'}),
    event("m7", userId="u11"),
)
"""Two people; what is u1's: 0, 2, 3, 4, 5."""


@pytest.mark.parametrize("run_events", [0, 4, 8])
def test_all_of_one_person_and_nothing_of_another_is_found(journal: Journal, run_events: int) -> None:
    """From the index, from the journal behind it, and from both; by user, alias, anonymous id and in refused items."""
    journal.store(*STORY)
    if run_events:
        journal.seal(run_events)
    found = search(journal.folder, ["u1"])
    assert list(found.positions[0]) == [0, 2, 3, 4, 5]
    assert set(found.ids[0]) == {"u1", "a1", "a3"}
    assert dict(found.events[0]) == {"site": 2, "app": 2}


def test_people_of_one_search_are_told_apart(journal: Journal) -> None:
    """Each has an own count; somebody nobody knows has none."""
    journal.store(*STORY)
    found = search(journal.folder, ["u2", "nobody", "u11"])
    assert [dict(each) for each in found.events] == [{"site": 1}, {}, {"site": 1}]
    assert [set(each) for each in found.ids] == [{"u2", "a2"}, {"nobody"}, {"u11"}]


def test_an_anonymous_id_that_is_found_is_no_user_id(journal: Journal) -> None:
    """Whoever names alice as their anonymous id, or shares a constant with her, does not ask for her; events without a
    user go. An id that is given counts as both."""
    journal.store(
        event("m0", userId="alice", anonymousId="unknown"),
        event("m1", userId="mallory", anonymousId="alice"),
        event("m2", anonymousId="alice"),
        event("m3", userId="bob", anonymousId="unknown"),
        event("m4", anonymousId="unknown"),
        event("m5", userId="unknown"),
    )
    assert list(search(journal.folder, ["mallory"]).positions[0]) == [1, 2]
    assert search(journal.folder, ["mallory"]).ids == [{"mallory": True, "alice": False}]
    assert list(search(journal.folder, ["alice"]).positions[0]) == [0, 2, 4]
    assert list(search(journal.folder, ["unknown"]).positions[0]) == [4, 5]


def test_who_a_user_was_before_may_have_been_either(journal: Journal) -> None:
    """An alias says that the previous id is the same person's, also where it was found as an anonymous one before; a
    known id keeps its kind."""
    journal.store(
        event("m0", userId="u1", anonymousId="p1"),
        event("m1", userId="p1"),
        event("m2", userId="p1", anonymousId="a1"),
        event("m3", userId="a1"),
    )
    assert list(search(journal.folder, ["u1"]).positions[0]) == [0]
    journal.store(event("m4", type_="alias", userId="u1", previousId="p1"))
    found = search(journal.folder, ["u1"])
    assert list(found.positions[0]) == [0, 1, 2, 4]
    assert found.ids == [{"u1": True, "p1": True, "a1": False}]
    assert list(search(journal.folder, ["u2"], known_ids=lambda _: {"a1": False, "p1": False}).positions) == []


def test_what_syncs_sent_is_found_by_users(journal: Journal) -> None:
    """What came from senders is not looked for."""
    sent = msgspec.structs.replace(event("m1", userId="u1"), origin="audience")
    journal.store(event("m0", userId="u1"), sent, event("m2", userId="u2"))
    assert {partition: list(each) for partition, each in synced(journal.folder, frozenset({"u1"})).items()} == {0: [1]}


def test_message_ids_are_read_a_few_at_a_time(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was found, and each once."""
    monkeypatch.setattr("hookline.privacy.search.MESSAGE_IDS_PER_SLICE", 2)
    journal.store(*STORY)
    slices = list(message_ids(journal.folder, search(journal.folder, ["u1"]).positions))
    assert slices == [{"m0", "m2"}, {"m3", "m4"}, {"m5"}]


def test_what_came_in_later_is_left_alone(journal: Journal) -> None:
    """Only what lies below the end that was asked about."""
    journal.store(*STORY)
    assert list(search(journal.folder, ["u1"], ends={0: 3}).positions[0]) == [0, 2]


def test_ids_that_somebody_else_knows_of_count(journal: Journal) -> None:
    """A further id leads to its events as one that an event tells of."""
    journal.store(*STORY)
    found = search(journal.folder, ["u2"], known_ids=lambda id: {"u11": True} if id == "u2" else {})
    assert list(found.positions[0]) == [1, 6, 7]


def test_ids_given_as_numbers_are_the_same_ids(journal: Journal) -> None:
    """An anonymous id 7 is "7", and what is larger than any integer of PHP's is as JavaScript writes it."""
    journal.store(event("m0", anonymousId="7"), event("m1", userId="u1", anonymousId=7.0))
    journal.store(event("m2", anonymousId="9223372036854776000"), event("m3", userId="u2", anonymousId=2.0**63))
    assert list(search(journal.folder, ["u1"]).positions[0]) == [0, 1]
    assert list(search(journal.folder, ["u2"]).positions[0]) == [2, 3]


def test_whatever_was_refused_is_looked_at_a_few_at_a_time(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers may have sent millions of items without a user, and somebody may have as many events."""
    counts, get_all = [], LocalReader.get_all

    def counted(self: LocalReader, partition: int, offsets: Sequence[int]) -> Iterator[tuple[int, Record]]:
        counts.append(len(offsets))
        return get_all(self, partition, offsets)

    monkeypatch.setattr(LocalReader, "get_all", counted)
    monkeypatch.setattr("hookline.privacy.search.OFFSETS_PER_SLICE", 2)
    refused = [event(f"r{n}", rejected={"start": f"u{n % 2}"}) for n in range(7)]
    journal.store(*refused, *(event(f"m{n}", userId="u1") for n in range(5)))
    journal.seal(3)
    assert list(search(journal.folder, ["u1"]).positions[0]) == [1, 3, 5, 7, 8, 9, 10, 11]
    assert max(counts) == 2


@pytest.mark.parametrize(
    "written",
    [r"acct\/Zo\u00eb+1\ud83d\ude00", r"acct/Zo\u00EB\u002b1\uD83D\uDE00", "acct/Zoë+1😀", r"acct\u002FZoë\u002B1😀"],
)
def test_refused_items_are_found_however_their_ids_are_escaped(journal: Journal, written: str) -> None:
    """PHP escapes slashes, others signs or everything that is no ASCII, in small or large digits."""
    whole = f'{{"userId":"{written}"'
    journal.store(event("m0", rejected={"id": "acct"}), event("m1", rejected={"start": whole}), event("m2", userId="u"))
    assert list(search(journal.folder, ["acct/Zoë+1😀"]).positions[0]) == [1]
    journal.store(raw_item("m3", whole + "}"))
    assert list(search(journal.folder, ["acct/Zoë+1😀"]).positions[0]) == [1, 3]


def raw_item(message_id: str, body: str) -> Record:
    """An item that was refused, as it was written."""
    return msgspec.structs.replace(event(message_id, rejected={}), body=body.encode())
