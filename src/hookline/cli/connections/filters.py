"""What the filters of a connections file do with the events of a data folder, as ``hookline check`` says it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hookline.connections.model import Destination

EVENTS_READ_MAX = 100_000
"""Events looked through for those of a destination's sources."""


def tried_filters(file: Path, data_path: Path) -> Iterator[str]:
    """Yield lines for each destination with filters; nothing where the data folder has no events to try them on."""
    from hookline.connections import file as connections

    text, _ = connections.load(file)
    configuration, _ = connections.read(text)
    filtered = [destination for _, destination in configuration.destinations if destination.filters]
    if not filtered or not (data_path / "journal").is_dir():
        return
    try:
        for destination in filtered:
            yield from _tried(destination, data_path / "journal")
    except OSError as error:
        yield f"the filters were not tried: cannot read {error.filename}: {error.strerror}"


def _tried(destination: Destination, folder: Path) -> Iterator[str]:
    from hookline.journal.opening import open_reader
    from hookline.journal.reading import newest_first
    from hookline.route.filter_trial import try_filters

    journal = open_reader(folder)
    ends = {partition: journal.end(partition) for partition in journal.partitions()}
    newest = islice(newest_first(journal, ends), EVENTS_READ_MAX)
    trial = try_filters(destination, (place.record for place in newest), samples_max=0)
    journal.close()
    if trial.total == 0:
        yield f"{destination.id}: no events of its sources are kept to try the filters on"
        return
    yield (
        f"{destination.id}: matched {trial.matched} of {trial.total} recent events; {trial.filtered} would not be sent,"
        f" {trial.changed} not as they came"
    )
    for each in trial.filters:
        yield f"  {each.rule}: matched {each.matched} of {trial.total}"
