"""JSON Merge Patch (RFC 7396): what a PATCH body does to an object."""

from __future__ import annotations

from typing import Any

Json = Any
"""Free-form JSON."""


def merged(target: Json, patch: Json) -> Json:
    """``target`` with ``patch`` laid over it: null removes a key, objects merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
