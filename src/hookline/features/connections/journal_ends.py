"""Where the journal ends right now: what a new lane begins at."""

from __future__ import annotations

from hookline.connections.model import Offsets
from hookline.journal.opening import open_reader
from hookline.settings import Settings


def journal_ends(settings: Settings) -> Offsets:
    """Return one past the last durable offset of every partition; 0 where collect has not stored anything yet."""
    ends = dict.fromkeys(range(settings.journal.partitions), 0)
    folder = settings.data_path / "journal"
    if folder.is_dir():
        reader = open_reader(folder)
        try:
            ends.update({partition: reader.end(partition) for partition in reader.partitions()})
        finally:
            reader.close()
    return ends
