"""Which journal a data folder has: the one place that chooses a backend.

The places that the databases of a data folder hold mean nothing in another journal, so a folder belongs to the one it
began with. What is noted in it is also how tools that know the folder alone find the brokers.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from hookline.extras import install_extra
from hookline.journal.folder import read_note, refuse_moved
from hookline.journal.local.backend import LocalBackend
from hookline.journal.port import JournalBackend, JournalUnusable, SearchableReader
from hookline.secret_references import is_reference
from hookline.settings import Settings, environment_name, value_of

FOLDER = "journal"
"""In the data folder."""


def claim(settings: Settings) -> None:
    """Hold the data folder against ``journal.url``, and note the brokers in it; raise JournalUnusable."""
    refuse_moved(settings.data_path)
    journal_of(settings).claim()


def journal_of(settings: Settings) -> JournalBackend:
    """Return the journal that the settings name; raise JournalUnusable when it cannot be used here."""
    folder = settings.data_path / FOLDER
    if settings.journal.is_local:
        return LocalBackend(folder)
    if find_spec("confluent_kafka") is None:
        raise JournalUnusable(f"a journal on Kafka needs the extra named kafka: {install_extra('kafka')}")
    from hookline.journal.kafka.address import address_of
    from hookline.journal.kafka.backend import KafkaBackend

    remember_secrets(settings)
    return KafkaBackend(folder, address_of(settings))


def journal_in(folder: Path) -> JournalBackend:
    """Return the journal of a data folder's ``journal`` folder, as the folder says."""
    note = read_note(folder)
    if note is None:
        return LocalBackend(folder)
    from hookline.journal.kafka.address import noted
    from hookline.journal.kafka.backend import KafkaBackend

    return KafkaBackend(folder, noted(note))


def open_reader(folder: Path) -> SearchableReader:
    """Return a reader of the journal of a data folder's ``journal`` folder."""
    return journal_in(folder).reader()


def remember_secrets(settings: Settings) -> None:
    """Have this process and its children know the secrets that the folder's file only names."""
    if settings.journal.is_local:
        return
    from hookline.journal.kafka.address import SECRET_SETTINGS

    secrets = {environment_name(key): value_of(settings, key) for key in SECRET_SETTINGS}
    os.environ.update({name: value for name, value in secrets.items() if value and not is_reference(value)})
