"""The destination selection object of SPEC 2.4: ``integrations``, also reachable as ``context.integrations``."""

from __future__ import annotations

from collections.abc import Mapping


def refusal(selection: Mapping[str, bool] | None, published_name: str) -> str | None:
    """Return why an event with this selection does not go to a destination of this name, or None when it does.

    By default every destination is chosen; ``All: false`` refuses those not named true. Names are case-sensitive.
    """
    if selection is None:
        return None
    chosen = selection.get(published_name)
    if chosen is None:
        return None if selection.get("All", True) else "integrations_all_false"
    return None if chosen else "integrations_name_false"
