"""Going through the conditions of an audience, each with its path such as ``condition.all[0]``."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.connections.definitions.model import Audience, Condition


def conditions_of(audience: Audience) -> Iterator[tuple[str, Condition]]:
    """Yield every condition of an audience with its path, outer ones first."""
    waiting = [("condition", audience.condition)]
    while waiting:
        path, condition = waiting.pop()
        yield path, condition
        waiting += reversed(list(terms_of(path, condition)))


def terms_of(path: str, condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield what ``all``, ``any`` or ``not`` holds, with paths."""
    for key, terms in (("all", condition.all), ("any", condition.any)):
        for index, term in enumerate(terms or ()):
            yield f"{path}.{key}[{index}]", term
    if condition.not_ is not None:
        yield f"{path}.not", condition.not_


def dotted(path: str, inner: str) -> str:
    """Return the path of something inside of what is at ``path``."""
    return f"{path}.{inner}" if path and inner else path or inner
