"""Where one of the five databases is: in a file, or in a schema of a PostgreSQL database."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hookline.settings import Settings

Which = Literal["control", "deliver", "insights", "privacy", "profiles"]

NOTE_FILE = "database"
"""In the data folder: which PostgreSQL database it has; none when its databases are the folder's files."""

WRITTEN_BY: dict[str, tuple[Which, ...]] = {
    "collect": (),
    "control": ("control", "insights", "privacy"),
    "deliver": ("deliver",),
    "profiles": ("profiles",),
}
"""What each role writes to, and brings to its newest schema, alone."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of the PostgreSQL database that ``url`` (``postgresql://…``) leads to."""

    url: str = field(repr=False)  # it may hold a password
    which: Which

    @property
    def name(self) -> str:
        """Return the schema's name in the database."""
        return f"hookline_{self.which}"

    def __str__(self) -> str:
        return f"schema {self.name} of the PostgreSQL database"


DatabaseLocation = Path | Schema


def location_of(settings: Settings, which: Which) -> DatabaseLocation:
    """Return where one of an installation's databases is."""
    if settings.database.url == "local":
        return settings.data_path / f"{which}.db"
    return Schema(settings.database.url, which)


def which_of(location: DatabaseLocation) -> Which | None:
    """Return which of the databases is at a place; None for a file that is named otherwise."""
    if isinstance(location, Schema):
        return location.which
    return next((which for which in get_args(Which) if which == location.stem), None)
