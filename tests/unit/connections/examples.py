"""Objects to test with, short to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hookline.connections.edits import Edit, Put
from hookline.connections.model import Destination, Offsets, Source, Webhook, WebhookSettings
from hookline.connections.store import Store
from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation


def source(id: str = "website", **given: Any) -> Source:
    """A source; its write key is made of its id unless given."""
    return Source(**{"id": id, "name": id.title(), "write_keys": (f"wk_{id}",), **given})


def destination(
    id: str = "crm",
    *,
    sources: tuple[str, ...] = ("website",),
    url: str = "https://crm.example.com/hook",
    headers: dict[str, str] | None = None,
    secret: str | None = None,
    **given: Any,
) -> Destination:
    """A destination with one webhook."""
    settings = WebhookSettings(webhooks=(Webhook(url=url, headers=headers or {}),), shared_secret=secret)
    return Destination(**{"id": id, "name": id.title(), "sources": sources, "settings": settings, **given})


def give_line_ends(location: DatabaseLocation) -> None:
    """Make the stored ids and write keys end in a line end, as older versions took them."""
    connection = connect(location)
    connection.execute("BEGIN IMMEDIATE")
    for id, *texts in connection.execute("SELECT id, document, lane FROM objects").fetchall():
        odd = [text and re.sub(r'"(website|crm|wk_website)"', r'"\1\\n"', text) for text in texts]
        connection.execute("UPDATE objects SET id = ?, document = ?, lane = ? WHERE id = ?", (f"{id}\n", *odd, id))
    connection.execute("COMMIT")
    connection.close()


def ends(*offsets: int) -> Callable[[], Offsets]:
    """A journal that ends at these offsets, by partition."""
    return lambda: dict(enumerate(offsets))


def change(store: Store, *edits: Edit | Source | Destination, at: int = 0, owner: str | None = None) -> int:
    """Make a change while the journal's one partition ends at ``at``."""
    made = [edit if not isinstance(edit, Source | Destination) else Put(edit) for edit in edits]
    return store.change(made, "somebody", owner, ends(at))
