"""The ledger of the crash report: what is missing or came twice is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.bench.crash.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of one receiver whose files are written by hand: its processes are not used."""
    (tmp_path / "acknowledged").touch()
    with Ledger(tmp_path) as running:
        pass
    return running


def write(folder: Path, name: str, *ids: str) -> None:
    """Add lines to one of its files."""
    with (folder / name).open("a") as file:
        file.writelines(f"{message_id}\n" for message_id in ids)


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
