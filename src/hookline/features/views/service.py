"""Keep saved views; nothing but the address of a list, which says all of its state."""

from __future__ import annotations

from typing import NamedTuple

from hookline.api.caller import Caller
from hookline.api.problem import Problem
from hookline.api.services import Services, control_database

VIEWS_MAX = 100
"""Of one owner."""
_COLUMNS = "id, name, path, query, owner, shared, created_at"


class View(NamedTuple):
    """A list's path and query under a name; ``owner`` may change it, and of a shared one every editor."""

    id: int
    name: str
    path: str
    query: str
    owner: str
    shared: bool
    created_at: int

    def is_seen_by(self, caller: Caller) -> bool:
        """Return whether it is theirs, or everybody's."""
        return bool(self.shared) or self.owner == owner_of(caller)

    def is_changed_by(self, caller: Caller) -> bool:
        """Return whether they may rename, share or delete it."""
        return self.owner == owner_of(caller) or (bool(self.shared) and caller.may("editor"))


def owner_of(caller: Caller) -> str:
    """Return whose views these are: an account's, a token's, or those of the admin token."""
    return f"{caller.kind} {caller.id}" if caller.id is not None else caller.kind


def views_of(services: Services, caller: Caller, path: str | None) -> list[View]:
    """Return the views that somebody sees, by name."""
    query, values = f"SELECT {_COLUMNS} FROM views WHERE (owner = ? OR shared = 1)", [owner_of(caller)]
    if path is not None:
        query, values = f"{query} AND path = ?", [*values, path]
    rows = control_database(services).rows(f"{query} ORDER BY name, id", tuple(values))
    return [View(*row) for row in rows]


def view(services: Services, caller: Caller, id: int) -> View | None:
    """Return one view, None where there is none that they see."""
    row = control_database(services).row(f"SELECT {_COLUMNS} FROM views WHERE id = ?", (id,))
    found = None if row is None else View(*row)
    return found if found is not None and found.is_seen_by(caller) else None


def save_view(services: Services, caller: Caller, name: str, path: str, query: str, shared: bool) -> View:
    """Keep a view; raise Problem where they have too many."""
    owner = owner_of(caller)
    with control_database(services).transaction() as execute:
        ((count,),) = execute("SELECT count(*) FROM views WHERE owner = ?", (owner,)).fetchall()
        if count >= VIEWS_MAX:
            raise Problem(422, "too_many_views", f"You have {VIEWS_MAX} saved views. Delete unused ones first.")
        (row,) = execute(
            "INSERT INTO views (name, path, query, owner, shared, created_at) VALUES (?, ?, ?, ?, ?, ?)"
            f" RETURNING {_COLUMNS}",
            (name, path, query, owner, int(shared), services.store.now_ms()),
        ).fetchall()
    return View(*row)


def change_view(services: Services, id: int, name: str, shared: bool) -> None:
    """Give a view another name, or share it."""
    with control_database(services).transaction() as execute:
        execute("UPDATE views SET name = ?, shared = ? WHERE id = ?", (name, int(shared), id))


def delete_view(services: Services, id: int) -> None:
    """Forget a view."""
    with control_database(services).transaction() as execute:
        execute("DELETE FROM views WHERE id = ?", (id,))
