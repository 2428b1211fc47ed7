"""docs/reference/collection.md against the router."""

from __future__ import annotations

import re

from hookline.collect.http.router import KEYED, ROUTES, Kind
from tests.docs.pages import rows

METHODS = {Kind.SINGLE: "POST", Kind.BATCH: "POST", Kind.TELEMETRY: "POST"}


def test_the_table_has_every_path_with_its_methods() -> None:
    """Each path of the router stands there once, without its spelling with a slash, and no other does."""
    documented = {
        path: methods for paths, methods, _ in rows("reference/collection.md") for path in re.split("`?, `?", paths)
    }
    known = {path.decode(): route.kind for path, route in ROUTES.items() if not path.endswith(b"/")}
    bundles = {path for path, kind in known.items() if kind is Kind.BUNDLE}
    routed = {path: kind for path, kind in known.items() if path not in bundles}
    routed["/analytics-next/bundles/FILE"] = Kind.BUNDLE
    for before, behind, route in KEYED:
        if not behind.endswith(b"/"):
            routed[f"{before.decode()}WRITE_KEY{behind.decode()}"] = route.kind
    assert documented == {path: METHODS.get(kind, "GET, HEAD") for path, kind in routed.items()}
