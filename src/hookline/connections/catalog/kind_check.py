"""Whether a destination fits its kind: the kind is installed, and URLs and headers are such as it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hookline.connections.catalog.kinds import OWN, kinds
from hookline.connections.model import Destination


def kind_problems(
    destination: Destination,
) -> Iterator[tuple[Literal["unknown_kind", "invalid_url", "invalid_headers"], str, str]]:
    """Code, path and sentence of everything that does not fit."""
    if destination.kind == OWN:
        return
    kind = kinds().get(destination.kind)
    if kind is None:
        yield "unknown_kind", "kind", f"there is no kind {destination.kind!r}; installed are {', '.join(kinds())}"
        return
    prefixes, headers = kind.manifest.url_prefixes, {name.lower() for name in kind.manifest.headers}
    for index, webhook in enumerate(destination.settings.webhooks):
        place = f"settings.webhooks[{index}]"
        if prefixes and not webhook.url.startswith(prefixes):
            yield "invalid_url", f"{place}.url", f"a URL of {kind.manifest.name} begins with {' or '.join(prefixes)}"
        for name in webhook.headers:
            if name.lower() in headers:
                yield (
                    "invalid_headers",
                    f"{place}.headers",
                    f"header {name!r} is set by {kind.manifest.name}: leave it out",
                )
