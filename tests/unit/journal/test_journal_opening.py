"""Which journal a data folder has, and what happens when the settings name another one."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from hookline.journal.folder import read_note
from hookline.journal.kafka.address import noted, parse_address
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.opening import claim, open_reader
from hookline.journal.port import JournalUnusable
from hookline.settings import Journal, Secrets, Settings, SettingsError, load

KAFKA = "kafka://a:9092,b:9092/events"


def settings_of(folder: Path, url: str) -> Settings:
    """Settings of a data folder with this journal."""
    return Settings(data_dir=str(folder), journal=Journal(url=url))


def test_a_local_journal_is_the_folder_itself(tmp_path: Path) -> None:
    """Nothing is noted, and its reader reads files."""
    claim(settings_of(tmp_path, "local"))
    assert read_note(tmp_path / "journal") is None
    assert isinstance(open_reader(tmp_path / "journal"), LocalReader)


def test_a_journal_on_kafka_is_noted_and_its_brokers_may_move(tmp_path: Path) -> None:
    """The folder says where its journal is; other brokers of the same topic are noted in turn."""
    claim(settings_of(tmp_path, KAFKA))
    assert read_note(tmp_path / "journal") == f"{KAFKA}\n"
    claim(settings_of(tmp_path, "kafka://c:9092/events"))
    assert read_note(tmp_path / "journal") == "kafka://c:9092/events\n"


@pytest.mark.parametrize("url", ["local", "kafka://a:9092/others"])
def test_a_folder_with_a_journal_on_kafka_takes_no_other(tmp_path: Path, url: str) -> None:
    """Its places mean nothing in another journal; the sentence names the one it has."""
    claim(settings_of(tmp_path, KAFKA))
    with pytest.raises(JournalUnusable, match=KAFKA):
        claim(settings_of(tmp_path, url))
    assert read_note(tmp_path / "journal") == f"{KAFKA}\n"


def test_a_folder_with_a_local_journal_does_not_go_to_kafka(tmp_path: Path) -> None:
    """Its events would be left behind."""
    (tmp_path / "journal" / "0").mkdir(parents=True)
    with pytest.raises(JournalUnusable, match="hookline migrate-to"):
        claim(settings_of(tmp_path, KAFKA))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Kafka client the sentence says what to install."""
    monkeypatch.setattr("hookline.journal.opening.find_spec", lambda name: None)
    with pytest.raises(JournalUnusable, match=r"pip install '\.\[kafka\]'"):
        claim(settings_of(tmp_path, KAFKA))


def test_what_brokers_are_met_with_is_noted_for_its_owner_alone(tmp_path: Path) -> None:
    """Tools that know the folder alone come in too; a reference stays one until a client is made."""
    journal = Journal(
        url=KAFKA, sasl_mechanism="SCRAM-SHA-512", sasl_username="me", sasl_password="env:HOOKLINE_SECRET_KAFKA"
    )
    note = tmp_path / "journal" / "kafka"
    with pytest.raises(JournalUnusable, match="HOOKLINE_SECRET_KAFKA is not set"):
        claim(Settings(data_dir=str(tmp_path), journal=journal))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka").write_text("s3cret\n")
    journal = msgspec.structs.replace(journal, sasl_password="file:kafka")
    claim(Settings(data_dir=str(tmp_path), journal=journal, secrets=Secrets(dir=str(tmp_path / "secrets"))))
    assert note.read_text().startswith(f"{KAFKA}\n")
    assert "s3cret" not in note.read_text()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    options = noted(note.read_text()).client()
    assert options["security.protocol"] == "SASL_PLAINTEXT"
    assert (options["sasl.username"], options["sasl.password"]) == ("me", "s3cret")


def test_a_folder_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It notes the brokers alone."""
    assert noted(f"{KAFKA}\n") == parse_address(KAFKA)
    assert noted(KAFKA) == parse_address(KAFKA)


def test_files_that_cannot_be_used_are_told_before_anything_starts(tmp_path: Path) -> None:
    """A certificate authority that is not there, and one that is none."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(JournalUnusable, match=r"journal\.tls_… name cannot be used: ssl\.ca\.location failed"):
            claim(Settings(data_dir=str(tmp_path), journal=Journal(url=KAFKA, tls=True, tls_ca_file=str(path))))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"tls_ca_file": "ca.pem"}, "set journal.tls to true"),
        ({"tls": True, "tls_key_file": "key.pem"}, "set both"),
        ({"sasl_username": "me"}, "journal.sasl_mechanism"),
        ({"tls": True, "sasl_mechanism": "PLAIN", "sasl_username": "me"}, "'journal.sasl_password': PLAIN needs it"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "x"}, "for all to read"),
        ({"sasl_mechanism": "GSSAPI"}, "write one of none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_half_of_what_brokers_want_is_refused_with_the_settings(written: dict[str, object], sentence: str) -> None:
    """Nothing is left out without a word, and no password is sent for all to read."""
    with pytest.raises(SettingsError, match=sentence):
        load(None, {}, {"journal.url": KAFKA, **{f"journal.{key}": value for key, value in written.items()}})


@pytest.mark.parametrize("url", ["kafka://a:9092", "kafka://a/events", "kafka://me:secret@a:9092/e", "redis://a", ""])
def test_an_address_that_cannot_be_one_is_refused_with_the_settings(url: str) -> None:
    """Before anything starts, with the form to write."""
    with pytest.raises(SettingsError, match="kafka://host:port,host:port/topic"):
        load(None, {"HOOKLINE_JOURNAL_URL": url})


def test_a_password_of_the_settings_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file only names the variable that holds it, which the process that claims the folder has from then on."""
    monkeypatch.setenv("HOOKLINE_JOURNAL_SASL_PASSWORD", "another")
    journal = Journal(url=KAFKA, sasl_mechanism="SCRAM-SHA-512", sasl_username="me", sasl_password="s3cret")
    claim(Settings(data_dir=str(tmp_path), journal=journal))
    note = (tmp_path / "journal" / "kafka").read_text()
    assert "s3cret" not in note
    assert noted(note).client()["sasl.password"] == "s3cret"
    monkeypatch.delenv("HOOKLINE_JOURNAL_SASL_PASSWORD")
    with pytest.raises(JournalUnusable, match="set HOOKLINE_JOURNAL_SASL_PASSWORD where this runs"):
        noted(note).client()
