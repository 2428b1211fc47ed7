"""How a definition is doing: its state as colour, shape and word, the last sync and the next, and how many people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from hookline.api.services import Services
from hookline.connections.definitions.check import DefinitionKind
from hookline.connections.definitions.model import Audience, Definition
from hookline.connections.state import Stored
from hookline.events.timestamps import iso
from hookline.features.audiences.service import CountRequest, member_counts
from hookline.features.people.service import ProfileReader, profile_log
from hookline.people.definitions.definition import Key, KindName
from hookline.people.definitions.feature import features_of
from hookline.people.sync.results import EndedSync, SyncState, empty_value
from hookline.web.rendering import number

Mark = tuple[str, str, str]


class SyncRow(NamedTuple):
    """A sync that has ended: when it looked at people, how long it took, and for how many the value came and went."""

    number: int
    at: str
    seconds: float
    came: int
    went: int
    people: int | None


class DefinitionProgress(NamedTuple):
    """``people`` is None until they were counted, ``next_at`` empty when no sync is to come."""

    mark: Mark
    people: int | None
    sync: SyncRow | None
    next_at: str


class _SyncReading(NamedTuple):
    state: SyncState | None
    unread: int
    sync: EndedSync | None


NOTHING = _SyncReading(None, 0, None)


async def progress_of(services: Services, definitions: Sequence[Definition]) -> list[DefinitionProgress]:
    """Return how these are doing, in their order."""
    found = await profile_log(services).read(lambda reader: [_find(reader, each) for each in definitions])
    found = found or [NOTHING] * len(definitions)
    wanted = {
        _key(definition): CountRequest(empty_value(definition), each.state.number)
        for definition, each in zip(definitions, found, strict=True)
        if each.state is not None and each.state.number
    }
    counts = await member_counts(services).of(wanted)
    now_ms = services.store.steady_ms()
    return [
        DefinitionProgress(
            mark=_mark(definition, each, now_ms),
            people=counts.get(_key(definition)) if _key(definition) in wanted else 0,
            sync=None if each.sync is None else sync_row(each.sync),
            next_at=_next_at(definition, each.state),
        )
        for definition, each in zip(definitions, found, strict=True)
    ]


def sync_row(sync: EndedSync) -> SyncRow:
    """Return a sync as the pages show it."""
    return SyncRow(
        sync.number, iso(sync.at_ms), (sync.finished_ms - sync.at_ms) / 1000, sync.came, sync.went, sync.people
    )


def _find(reader: ProfileReader, definition: Definition) -> _SyncReading:
    key = _key(definition)
    state = reader.sync_states.of(key)
    syncs = [] if state is None else reader.results.syncs(key, 1)
    unread = reader.sync_states.unread(features_of(definition)) if state is not None and state.is_anew else 0
    return _SyncReading(state, unread, syncs[0] if syncs else None)


def _key(definition: Definition) -> Key:
    return section_of(definition).key(definition.id)


def _mark(definition: Definition, found: _SyncReading, now_ms: int) -> Mark:
    if not definition.enabled:
        return "off", "○", "disabled"
    if found.state is None:
        return "wait", "◔", "first sync pending"
    if found.unread:
        return "wait", "◔", f"{number(found.unread)} stored {'event' if found.unread == 1 else 'events'} left to read"
    if not definition.destinations and not found.state.is_anew:
        return "off", "○", "no destination"
    if found.state.is_telling:
        return "wait", "◔", "syncing"
    if found.state.is_anew:
        return "wait", "◔", "re-evaluating" if found.state.number else "first sync pending"
    if found.state.next_ms <= now_ms:
        return "wait", "◔", "sync due"
    return "good", "●", "in sync"


def _next_at(definition: Definition, state: SyncState | None) -> str:
    if not definition.enabled or state is None or state.is_telling or not state.next_ms:
        return ""
    return iso(state.next_ms)


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
