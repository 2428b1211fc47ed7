"""What audiences and computed traits of a connections file say that may not be meant, as ``hookline check`` tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hookline.connections.definitions.model import Definition


def doubtful_definitions(file: Path, retention_seconds: float) -> Iterator[str]:
    """Yield a line for each doubt about a file that has no problems."""
    from hookline.connections import file as connections
    from hookline.connections.check import join
    from hookline.connections.definitions.warnings import definition_warnings

    text, _ = connections.load(file)
    configuration, _ = connections.read(text)
    definitions: list[tuple[str, Definition]] = [*configuration.audiences, *configuration.computed_traits]
    for path, definition in definitions:
        for place, sentence in definition_warnings(definition, retention_seconds):
            yield f"{definition.id}: {join(path, place)}: {sentence}"
