"""Where a new destination's stream begins."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.open import open_deliver
from hookline.features.connections import service
from hookline.features.connections.service import journal_ends
from hookline.journal.port import JournalAway
from hookline.settings import Journal, Settings


class Forgetful:
    """A reader whose brokers do not know the topic."""

    def partitions(self) -> range:
        """None."""
        return range(0)

    def close(self) -> None:
        """Nothing is held."""


def test_a_topic_that_brokers_do_not_know_yet_has_no_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new destination would get every event that is kept. Before anything was stored, its stream begins at 0."""
    settings = Settings(data_dir=str(tmp_path), journal=Journal(url="kafka://127.0.0.1:1/events", partitions=2))
    (tmp_path / "journal").mkdir()
    monkeypatch.setattr(service, "open_reader", lambda _: Forgetful())
    with closing(open_deliver(tmp_path / "deliver.db")) as deliver:
        assert journal_ends(settings) == {0: 0, 1: 0}
        deliver.execute("INSERT INTO checkpoints (partition, next_offset, version, blob) VALUES (1, 7, 1, x'')")
        with pytest.raises(JournalAway, match="Try again"):
            journal_ends(settings)
