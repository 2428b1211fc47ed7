"""What is known of the events of one name: how often, since when, and which properties of which types they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

PROPERTIES_MAX = 200
"""Per name; what comes later is only noted as left out."""
PROPERTY_CHARACTERS_MAX = 100
NAME_CHARACTERS_MAX = 200
EXAMINED_FIRST = 500
EXAMINED_EVERY = 20
"""The first events of a name are all looked into, then one of so many; all are counted."""

PropertyType = Literal["string", "number", "boolean", "array", "object", "null"]
_TYPES: Mapping[type, PropertyType] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}

Properties = dict[str, dict[PropertyType, int]]
"""By path, how often it had a value of each type."""


class NameSchema(msgspec.Struct):
    """Times are milliseconds since the epoch; ``examined`` is in how many of the events properties were looked for."""

    count: int = 0
    first_seen: int = 0
    last_seen: int = 0
    examined: int = 0
    properties: Properties = {}
    left_out: bool = False
    """Whether there were more properties than are kept."""

    @property
    def to_examine(self) -> bool:
        """Return whether the event just counted is to be looked into."""
        return self.count <= EXAMINED_FIRST or self.count % EXAMINED_EVERY == 0

    def see(self, at_ms: int) -> None:
        """Count one event."""
        if not self.count:
            self.first_seen = at_ms
        self.count += 1
        self.first_seen = min(self.first_seen, at_ms)
        self.last_seen = max(self.last_seen, at_ms)

    def examine(self, values: Mapping[str, Any]) -> None:
        """Note the properties of one event and, one level deep, those of objects in it."""
        self.examined += 1
        for name, value in values.items():
            self._note(name, value)
            if type(value) is dict:
                for inner, each in value.items():
                    self._note(f"{name}.{inner}", each)

    def _note(self, path: str, value: Any) -> None:
        path = path[:PROPERTY_CHARACTERS_MAX]
        types = self.properties.get(path)
        if types is None:
            if len(self.properties) >= PROPERTIES_MAX:
                self.left_out = True
                return
            types = self.properties[path] = {}
        kind = _TYPES.get(type(value), "object")
        types[kind] = types.get(kind, 0) + 1
