"""What may go wrong with a mapping, and how much it may do.

A document is bounded when it is compiled. A resolve is bounded by what it makes: an event of a few bytes can become
very much (a list within a list within a list, a text replaced by itself), so the work is counted while it is done.
"""

from __future__ import annotations

DEPTH_MAX = 128
"""Levels of a document, and of what it gives."""

DOCUMENT_VALUES_MAX = 10_000
"""Values in one document, each object, list and scalar counted once."""

DOCUMENT_CHARACTERS_MAX = 256 * 1024
"""Characters of all keys and strings of one document."""

VALUES_MAX = 65_536
"""Values that one resolve looks at or makes. An event of the largest size has at most a quarter of it."""

CHARACTERS_MAX = 1024 * 1024
"""Characters that one resolve makes: thirty times the largest event."""


class MappingError(ValueError):
    """A document that is no mapping. ``path`` is a JSON pointer to the place, ``sentence`` says what is wrong there."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}" if path else sentence)
        self.path = path
        self.sentence = sentence


class MappingFailed(Exception):
    """An event that a mapping cannot be resolved for. ``path`` is a JSON pointer to the directive, empty where the
    mapping as a whole went beyond a bound."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}" if path else sentence)
        self.path = path
        self.sentence = sentence


class Work:
    """Count what one resolve does; raises MappingFailed as soon as it is too much."""

    __slots__ = ("characters_left", "values_left")

    def __init__(self) -> None:
        self.values_left = VALUES_MAX
        self.characters_left = CHARACTERS_MAX

    def values(self, count: int) -> None:
        """Count values that are looked at or made."""
        self.values_left -= count
        if self.values_left < 0:
            raise MappingFailed("", f"the mapping goes through more than {VALUES_MAX:,} values for this event")

    def characters(self, count: int) -> None:
        """Count characters before they are made."""
        self.characters_left -= count
        if self.characters_left < 0:
            raise MappingFailed("", f"the mapping makes more than {CHARACTERS_MAX:,} characters for this event")


def too_deep() -> MappingFailed:
    """Return the failure of a value that is nested too deeply."""
    return MappingFailed("", f"the mapping comes to values nested more than {DEPTH_MAX} levels deep for this event")


def pointer(at: tuple[str, ...]) -> str:
    """Write a JSON pointer (RFC 6901)."""
    return "".join(["/" + key.replace("~", "~0").replace("/", "~1") for key in at])
