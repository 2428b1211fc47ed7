"""What a reader sees in a journal's folder."""

from __future__ import annotations

from pathlib import Path

from hookline.journal.conformance import records_of
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import Record


def stored_records(journal: Path) -> list[Record]:
    """Every record of partition 0, oldest first."""
    reader = LocalReader(journal)
    try:
        return records_of(list(reader.read(0, reader.start(0))))
    finally:
        reader.close()


def stored_ids(journal: Path) -> list[str]:
    """Their message ids."""
    return [record.message_id for record in stored_records(journal)]
