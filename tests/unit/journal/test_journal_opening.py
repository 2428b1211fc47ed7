"""Which journal a data folder has, and what happens when the settings name another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.journal.local.reader import LocalReader
from hookline.journal.opening import claim, kafka_url, open_reader
from hookline.journal.port import JournalUnusable
from hookline.settings import Journal, Settings, SettingsError, load

KAFKA = "kafka://a:9092,b:9092/events"


def settings_of(folder: Path, url: str) -> Settings:
    """Settings of a data folder with this journal."""
    return Settings(data_dir=str(folder), journal=Journal(url=url))


def test_a_local_journal_is_the_folder_itself(tmp_path: Path) -> None:
    """Nothing is noted, and its reader reads files."""
    claim(settings_of(tmp_path, "local"))
    assert kafka_url(tmp_path / "journal") is None
    assert isinstance(open_reader(tmp_path / "journal"), LocalReader)


def test_a_journal_on_kafka_is_noted_and_its_brokers_may_move(tmp_path: Path) -> None:
    """The folder says where its journal is; other brokers of the same topic are noted in turn."""
    claim(settings_of(tmp_path, KAFKA))
    assert kafka_url(tmp_path / "journal") == KAFKA
    claim(settings_of(tmp_path, "kafka://c:9092/events"))
    assert kafka_url(tmp_path / "journal") == "kafka://c:9092/events"


@pytest.mark.parametrize("url", ["local", "kafka://a:9092/others"])
def test_a_folder_with_a_journal_on_kafka_takes_no_other(tmp_path: Path, url: str) -> None:
    """Its places mean nothing in another journal; the sentence names the one it has."""
    claim(settings_of(tmp_path, KAFKA))
    with pytest.raises(JournalUnusable, match=KAFKA):
        claim(settings_of(tmp_path, url))
    assert kafka_url(tmp_path / "journal") == KAFKA


def test_a_folder_with_a_local_journal_does_not_go_to_kafka(tmp_path: Path) -> None:
    """Its events would be left behind."""
    (tmp_path / "journal" / "0").mkdir(parents=True)
    with pytest.raises(JournalUnusable, match="hookline migrate-to"):
        claim(settings_of(tmp_path, KAFKA))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Kafka client the sentence says what to install."""
    monkeypatch.setattr("hookline.journal.opening.find_spec", lambda name: None)
    with pytest.raises(JournalUnusable, match=r"pip install 'hookline\[kafka\]'"):
        claim(settings_of(tmp_path, KAFKA))


@pytest.mark.parametrize("url", ["kafka://a:9092", "kafka://a/events", "kafka://me:secret@a:9092/e", "redis://a", ""])
def test_an_address_that_cannot_be_one_is_refused_with_the_settings(url: str) -> None:
    """Before anything starts, with the form to write."""
    with pytest.raises(SettingsError, match="kafka://host:port,host:port/topic"):
        load(None, {"HOOKLINE_JOURNAL_URL": url})
