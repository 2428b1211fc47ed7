"""The ledger of the crash report: what is missing or came twice is found."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest
from bench.crash.ledger import Ledger

from tests.service.waiting import wait_until


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of one receiver whose files are written by hand: its processes are not used."""
    (tmp_path / "acknowledged").touch()
    with Ledger(tmp_path) as running:
        pass
    return running


def write(folder: Path, name: str, *ids: str) -> None:
    """Add lines to one of its files; a receiver's say when they came, too."""
    rest = " 12.5" if name == "received-0" else ""
    with (folder / name).open("a") as file:
        file.writelines(f"{message_id}{rest}\n" for message_id in ids)


def test_losses_and_duplicates_are_counted(ledger: Ledger, tmp_path: Path) -> None:
    """What was acknowledged and never came is lost; what came again is a duplicate, whether acknowledged or not."""
    write(tmp_path, "acknowledged", "a", "b", "c")
    write(tmp_path, "received-0", "a", "c", "c", "unacknowledged")
    balance = ledger.balance()
    assert (balance.expected, balance.lost, balance.duplicates) == (3, ("b at 0",), 1)


def test_lines_are_counted_as_they_come(ledger: Ledger, tmp_path: Path) -> None:
    """The counts follow the files."""
    write(tmp_path, "acknowledged", "a")
    assert ledger.acknowledged == 1
    write(tmp_path, "acknowledged", "b", "c")
    write(tmp_path, "received-0", "a")
    assert (ledger.acknowledged, ledger.sinks[0].received) == (3, 1)


def test_only_the_last_request_of_a_cut_connection_may_come_again(ledger: Ledger, tmp_path: Path) -> None:
    """A duplicate that another request followed on its connection is not explained by a crash."""
    write(tmp_path, "received-0", "a", "b", "b")
    assert not ledger.repeats_were_in_flight()
    write(tmp_path, "received-0-last", "b")
    assert ledger.repeats_were_in_flight()


def test_arrivals_have_their_times(ledger: Ledger, tmp_path: Path) -> None:
    """In the order in which they came."""
    write(tmp_path, "received-0", "b", "a")
    assert ledger.sinks[0].arrivals() == [("b", 12.5), ("a", 12.5)]


def test_a_replay_is_answered_and_not_counted(tmp_path: Path) -> None:
    """What is sent once more on purpose is no duplicate, and makes good no loss."""
    with Ledger(tmp_path) as ledger:
        port = ledger.sinks[0].port
        wait_until(lambda: posted(port, "a", {"X-Hookline-Replay": "1"}) == 200, what="the sink answers")
        assert posted(port, "b", {}) == 200
        assert ledger.sinks[0].counts() == {"b": 1}


def posted(port: int, message_id: str, headers: dict[str, str]) -> int:
    """The status that a delivery is answered with, 0 while nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/hook", b"{}", {"X-Message-Id": message_id, **headers})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
