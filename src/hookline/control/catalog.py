"""``/api/v1/catalog``: the kinds of destination there are, and the settings each takes."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import get

from hookline.connections.model import PUBLISHED_NAMES, WEBHOOKS_MAX, WebhookSettings
from hookline.control.listing import Listing


class CatalogKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind: ``publishedName`` is what the ``integrations`` object of an event calls it (SPEC 2.4)."""

    kind: str
    published_name: str
    description: str
    mode: str
    component: str
    source_types: tuple[str, ...]
    webhooks_max: int
    settings_schema: dict[str, Any]


@get("/catalog")
async def list_catalog() -> Listing[CatalogKind]:
    """Return the kinds of destination."""
    return Listing(
        [
            CatalogKind(
                kind="webhook",
                published_name=PUBLISHED_NAMES["webhook"],
                description="Forwards each event as an HTTP POST with a JSON body to up to five receiver URLs.",
                mode="cloud",
                component="server",
                source_types=("web", "mobile", "server"),
                webhooks_max=WEBHOOKS_MAX,
                settings_schema=msgspec.json.schema(WebhookSettings),
            )
        ]
    )
