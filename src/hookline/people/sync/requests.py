"""Syncs that somebody asked for: a file each in the run folder, so that profiles need not run to be asked.

Control writes them, profiles takes them away. One stays while a sync of its definition is under way, which may have
looked at people before it was asked for.
"""

from __future__ import annotations

from pathlib import Path

from hookline.people.definitions.definition import Key

FOLDER = "sync-now"


class SyncRequests:
    """At most one for each definition."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / FOLDER

    def ask(self, key: Key) -> None:
        """Ask for a sync of a definition; again is the same."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path(key).touch(mode=0o600)

    def asked(self) -> list[Key]:
        """Return the definitions whose sync is asked for."""
        found: list[Key] = []
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return found
        for name in names:
            kind, _, id = name.partition(".")
            if kind == "audience":
                found.append(("audience", id))
            elif kind == "trait":
                found.append(("trait", id))
        return found

    def done(self, key: Key) -> None:
        """It is due now, or cannot be."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / ".".join(key)
