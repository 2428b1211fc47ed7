"""Previews that were requested: a file each in the run folder, so that the role need not run for it, how far each is,
and what it came to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple, NewType

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.database.connection import Connection

FOLDER = "previews"
PREVIEWS_MAX = 10
"""At a time, finished ones included."""
KEPT_MS = 3_600_000
"""From when a preview is asked for until it is gone."""

ID_PREFIX = "prv_"

PreviewId = NewType("PreviewId", str)


class RequestedPreview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked for and when (ms): either an audience or a computed trait, of which the id means nothing."""

    asked_ms: int
    audience: Audience | None = None
    computed_trait: ComputedTrait | None = None

    @property
    def definition(self) -> Definition:
        """Return what it is a preview of; raise ValueError when it is of nothing."""
        found = self.audience or self.computed_trait
        if found is None:
            raise ValueError("neither an audience nor a computed trait")
        return found


class PreviewRequests:
    """At most ``PREVIEWS_MAX`` are taken; who asks looks first."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / FOLDER

    def ask(self, id: PreviewId, wish: RequestedPreview) -> None:
        """Ask for a preview."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = self._folder / f".{id}"
        descriptor = os.open(building, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(wish))
        building.rename(self._folder / id)

    def asked(self, now_ms: int) -> list[tuple[PreviewId, bytes]]:
        """Return what nobody has taken yet, as it was written, by id; what has waited too long is dropped."""
        found: list[tuple[PreviewId, bytes]] = []
        try:
            paths = sorted(self._folder.glob("[!.]*"))
            for path in paths:
                if path.stat().st_mtime * 1000 < now_ms - KEPT_MS:
                    path.unlink(missing_ok=True)
                else:
                    found.append((PreviewId(path.name), path.read_bytes()))
        except FileNotFoundError:  # taken meanwhile
            return found
        return found

    def since_ms(self, id: PreviewId) -> int | None:
        """Since when a preview waits to be taken, None for one that does not."""
        if not id.startswith(ID_PREFIX) or "/" in id:
            return None
        try:
            return int((self._folder / id).stat().st_mtime * 1000)
        except (OSError, ValueError):
            return None

    def done(self, id: PreviewId) -> None:
        """It was taken."""
        (self._folder / id).unlink(missing_ok=True)


PreviewState = Literal["reading", "counting", "done", "failed"]
OPEN = ("reading", "counting")


class Sampled(NamedTuple):
    """Somebody who was found: the person's number and, for a computed trait, the value."""

    person: int
    value: object


class Preview(NamedTuple):
    """A preview: ``progress`` from 0 to 1; people looked at and found so far; for a failed one what to do."""

    id: PreviewId
    state: PreviewState
    progress: float
    people: int | None
    members: int | None
    detail: str | None
    sample: tuple[Sampled, ...]


class PreviewLog:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: PreviewId) -> Preview | None:
        """Return one preview, None when it is gone."""
        query = "SELECT id, state, progress, people, members, detail FROM previews WHERE id = ?"
        row = self._connection.execute(query, (id,)).fetchone()
        if row is None:
            return None
        query = "SELECT person, value FROM preview_sample WHERE preview = ? ORDER BY person"
        rows = self._connection.execute(query, (id,))
        sample = tuple(Sampled(person, msgspec.json.decode(value)) for person, value in rows)
        id, state, progress, people, members, detail = row
        return Preview(id, state, progress, people, members, detail, sample)

    def open(self) -> int:
        """Return how many are under way."""
        ((count,),) = self._connection.execute("SELECT count(*) FROM previews WHERE state IN (?, ?)", OPEN).fetchall()
        return int(count)
