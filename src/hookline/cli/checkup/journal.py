"""The journal: whether it takes records where the settings say that it is."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.cli.checkup.finding import Finding
from hookline.cli.checkup.here import Here
from hookline.control.conditions.journal_damage import still_damaged
from hookline.journal.damaged import described, noted_damage
from hookline.journal.opening import FOLDER
from hookline.journal.port import JournalUnusable

ASK_SECONDS = 5.0


def check_journal(here: Here) -> Iterator[Finding]:
    """Whether brokers let us in and the topic takes records, for a journal on Kafka."""
    url = here.settings.journal.url
    if url == "local":
        folder = here.settings.data_path / FOLDER
        lost = still_damaged(folder, noted_damage(folder))
        if lost:
            next_step = "Check the disk, and put the segments back from a snapshot if there is one."
            yield Finding("journal", "warn", f"events of it cannot be read any more: {described(lost)}", next_step)
        else:
            yield Finding("journal", "ok", "in the data folder")
        return
    try:
        reason = _standing(here)
    except ImportError:
        reason = "the extra named kafka is not installed"
    except JournalUnusable as error:
        reason = str(error)
    if reason:
        next_step = "Until then events are answered 503. A secret env:… has to be set where this runs, too."
        yield Finding("journal", "fail", reason, next_step)
    else:
        yield Finding("journal", "ok", f"{url} takes records")


def _standing(here: Here) -> str:
    from hookline.journal.kafka.address import address_of
    from hookline.journal.kafka.admin import Admin
    from hookline.journal.kafka.topic import standing

    address = address_of(here.settings)
    return standing(Admin(address), address, ASK_SECONDS)
