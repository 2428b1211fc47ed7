"""Audiences and computed traits have the same screens: what differs is here."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from hookline.connections.definitions.model import Audience, Definition
from hookline.connections.definitions.together import DefinitionKind
from hookline.connections.state import Stored
from hookline.control.services import Services
from hookline.people.definitions.definition import Key, KindName


class DefinitionSection(NamedTuple):
    """One of the two; ``id`` is its entry in the rail, ``people`` the tab with the people it is about."""

    kind: DefinitionKind
    profile_kind: KindName
    id: str
    path: str
    api: str
    title: str
    noun: str
    people: str

    def href(self, id: str, tab: str = "") -> str:
        """Return the page of one of them, or a tab of it."""
        return f"{self.path}/{quote(id, safe='')}" + (f"/{tab}" if tab else "")

    def api_of(self, id: str) -> str:
        """Return where the admin API has it."""
        return f"{self.api}/{quote(id, safe='')}"

    def stored(self, services: Services, id: str) -> Stored[Any] | None:
        """Return the one with an id."""
        return services.store.stored(self.kind, id)

    def key(self, id: str) -> Key:
        """Return what profiles know it by."""
        return self.profile_kind, id


AUDIENCE = DefinitionSection(
    "audience", "audience", "audiences", "/audiences", "/api/v1/audiences", "Audiences", "audience", "members"
)
TRAIT = DefinitionSection(
    "computedTrait", "trait", "traits", "/traits", "/api/v1/computed-traits", "Traits", "computed trait", "values"
)


def section_of(definition: Definition) -> DefinitionSection:
    """Return which of the two a definition is."""
    return AUDIENCE if isinstance(definition, Audience) else TRAIT
