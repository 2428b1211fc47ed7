"""Whom a feature is kept for, as the database has it."""

from __future__ import annotations

from enum import IntEnum


class Purpose(IntEnum):
    """Of nobody's features the history goes, in steps. Previews look at features of their own before others'."""

    DEFINITIONS = 0
    PREVIEWS = 1
    NOBODY = 2
