"""Take people's ids, and the messageIds of their events, out of what control itself keeps, and follow what profiles
did."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from hookline.connections.history import Kind
from hookline.connections.state import decode_object
from hookline.database.connect import Shared
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly
from hookline.features.notifications.wording import Content
from hookline.people.definitions.definition import Key
from hookline.people.store.people import People, Person
from hookline.people.sync.results import SyncResults
from hookline.privacy import identities
from hookline.privacy.identities import Identities
from hookline.privacy.model import DeletionRequest
from hookline.privacy.search import IDENTITIES_MAX
from hookline.privacy.suppressions import LogNotEmptied
from hookline.replays.dead_letters import StoredAction
from hookline.replays.model import ReplayRequest
from hookline.replays.store import ReplayStore
from hookline.settings import Settings

ERASED = "erased"
"""What stands where an id was."""
REPLAYS = "replays/"
AFTER_REPLAYS = "replays0"
"""The smallest text behind all that begin with ``REPLAYS``."""

KINDS: dict[str, Kind] = {"audience": "audience", "trait": "computedTrait"}
NAMING_NOTICES = ("event_name_new", "destination_schema_changed")
"""The kinds of notices that say how events and properties are called."""

NOT_WRITTEN_BY_SENDERS = frozenset(("source", "destination", "httpStatus", "range", "from", "to"))
"""Parameters of lists that name what an operator chose, or are numbers: an id may be in them by chance."""
PAGE_PARTS = 3
"""Parts of a path that name the page and what it is of, such as ``/destinations/crm``."""

_request = msgspec.json.Decoder(ReplayRequest).decode
_action = msgspec.json.Decoder(StoredAction).decode
_content = msgspec.json.Decoder(Content).decode
_PART = re.compile(r"[^\W_]+")
_INNER = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)


class ErasedIds:
    """Finds ids in what senders and receivers wrote: an id counts wherever no letter or digit is next to it, in
    whatever case."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = {inner.group().casefold() for each in ids if (inner := _INNER.search(each))}
        self._lengths = sorted({len(_PART.findall(each)) for each in self._ids}, reverse=True)
        """In how many parts of letters and digits each may be found."""
        self._beginnings = {part.group() for each in self._ids if (part := _PART.search(each))}

    def are_in(self, text: str) -> bool:
        """Return whether a text names one of them."""
        return self.taken_from(text) != text

    def taken_from(self, text: str) -> str:
        """Return the text with ``ERASED`` in place of each of them."""
        if self._beginnings.isdisjoint(_PART.findall(text.casefold())):  # as nearly always
            return text
        parts = [each.span() for each in _PART.finditer(text)]
        found: list[str] = []
        index = done = 0
        while index < len(parts):
            first, _ = parts[index]
            for last in (index + length - 1 for length in self._lengths):
                if last < len(parts) and text[first : parts[last][1]].casefold() in self._ids:
                    found += text[done:first], ERASED
                    index, done = last, parts[last][1]
                    break
            index += 1
        return "".join([*found, text[done:]])


class Forgetting:
    """Works on ``control.db``, and by ``forget_in_schemas`` on what names come in; may be done twice."""

    def __init__(
        self,
        database: Shared,
        replays: ReplayStore,
        forget_in_schemas: Callable[[Callable[[str], bool]], bool] = lambda is_named: True,
    ) -> None:
        """``forget_in_schemas`` returns False where it is to be asked again."""
        self._database = database
        self._replays = replays
        self._forget_in_schemas = forget_in_schemas

    def forget(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        """Leave nothing of these in rows, free pages and the log; open replays that name them are cancelled. Raise
        LogNotEmptied."""
        self._forget_replays(ids, message_ids)
        self._forget_audit({*ids, *message_ids})
        self._forget_issues(ErasedIds({*ids, *message_ids}))
        self._forget_views({*ids, *message_ids}.__contains__)
        self._empty_log()

    def forget_names(self, ids: Collection[str]) -> None:
        """Leave no name of an event or a property that holds one of these, once the events are erased, as ``forget``
        does. Raise LogNotEmptied."""
        erased = ErasedIds(ids)
        are_emptied = self._forget_in_schemas(erased.are_in)
        self._forget_notices(erased)
        self._forget_notifications(erased)
        self._change_replays(lambda request: _without_name(request, erased))
        self._forget_actions(erased)
        # A retry of dead letters begins several replays, and is under another target than theirs.
        self._change_audit("changes LIKE ?", (f'%"{REPLAYS}%',), lambda changes: _without_names(changes, erased))
        self._forget_views(erased.are_in, NOT_WRITTEN_BY_SENDERS)
        self._empty_log()
        if not are_emptied:
            raise LogNotEmptied("insights.db")

    def _empty_log(self) -> None:
        if not self._database.overwrite_gaps():
            raise LogNotEmptied("control.db")

    def _forget_replays(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        def without(request: ReplayRequest) -> ReplayRequest:
            named = request.message_ids or ()
            return msgspec.structs.replace(
                request,
                user_id=ERASED if request.user_id in ids else request.user_id,
                message_ids=tuple(ERASED if id in message_ids else id for id in named) or None,
            )

        self._change_replays(without)

    def _change_replays(self, change: Callable[[ReplayRequest], ReplayRequest]) -> None:
        """Keep other requests than were made, and cancel what is open of these: it would find nothing that it was
        made for."""
        for lane, text, ended_at in self._database.rows("SELECT lane, request, ended_at FROM replays"):
            request = _request(text)
            changed = change(request)
            if changed == request:
                continue
            if ended_at is None:
                self._replays.want(lane, "cancelled", request.rate)
            with self._database.transaction() as execute:
                execute("UPDATE replays SET request = ? WHERE lane = ?", (msgspec.json.encode(changed).decode(), lane))

    def _forget_actions(self, erased: ErasedIds) -> None:
        """Take them out of which dead letters were to be discarded. One that deliver has not carried out yet discards
        none by such a name: those of the person are gone."""
        for id, text in self._database.rows("SELECT id, dead_letters FROM dead_letter_actions"):
            wanted = _action(text)
            changed = _without_name(wanted, erased)
            if changed != wanted:
                with self._database.transaction() as execute:
                    execute(
                        "UPDATE dead_letter_actions SET dead_letters = ? WHERE id = ?",
                        (msgspec.json.encode(changed).decode(), id),
                    )

    def _forget_audit(self, erased: Collection[str]) -> None:
        replays = "target >= ? AND target < ?", (REPLAYS, AFTER_REPLAYS)
        self._change_audit(*replays, lambda changes: _without(changes, erased))

    def _change_audit(self, where: str, values: tuple[str, ...], change: Callable[[Any], Any]) -> None:
        """Of the audit log only the entries of replays hold ids of people, and names that senders gave."""
        for id, text in self._database.rows(f"SELECT id, changes FROM audit_log WHERE {where}", values):
            changes = msgspec.json.decode(text)
            cleaned = change(changes)
            if cleaned != changes:
                with self._database.transaction() as execute:
                    execute(
                        "UPDATE audit_log SET changes = ? WHERE id = ?", (msgspec.json.encode(cleaned).decode(), id)
                    )

    def _forget_issues(self, erased: ErasedIds) -> None:
        """Take the words of issues that name one of them; the next failure brings them back without."""
        for id, message in self._database.rows("SELECT id, message FROM issues WHERE message IS NOT NULL"):
            if erased.are_in(message):
                with self._database.transaction() as execute:
                    execute("UPDATE issues SET message = NULL WHERE id = ?", (id,))

    def _forget_notices(self, erased: ErasedIds) -> None:
        for table, key in (("notices", "id"), ("notification_outage_notices", "outage")):
            rows = self._database.rows(
                f"SELECT {key}, kind, subject, message FROM {table} WHERE kind IN (?, ?)", NAMING_NOTICES
            )
            for *which, message in rows:
                if erased.are_in(message):
                    with self._database.transaction() as execute:
                        execute(
                            f"UPDATE {table} SET message = ? WHERE ({key}, kind, subject) = (?, ?, ?)",
                            (erased.taken_from(message), *which),
                        )

    def _forget_notifications(self, erased: ErasedIds) -> None:
        for id, text in self._database.rows("SELECT id, content FROM notification_messages"):
            content = _content(text)
            items = tuple(
                msgspec.structs.replace(item, message=erased.taken_from(item.message))
                if item.kind in NAMING_NOTICES
                else item
                for item in content.items
            )
            if items != content.items:
                cleaned = msgspec.json.encode(msgspec.structs.replace(content, items=items)).decode()
                with self._database.transaction() as execute:
                    execute("UPDATE notification_messages SET content = ? WHERE id = ?", (cleaned, id))

    def _forget_views(self, is_named: Callable[[str], bool], but: Collection[str] = ()) -> None:
        """Delete the saved views that look for one of them: there is nothing to see any more. ``but``: parameters that
        are not looked at; with them, neither are the parts of a path that name a page."""
        for id, path, query in self._database.rows("SELECT id, path, query FROM views"):
            named = [unquote(each) for each in path.split("/")[PAGE_PARTS if but else 0 :]]
            if any(map(is_named, [*named, *(each for name, each in parse_qsl(query) if name not in but)])):
                with self._database.transaction() as execute:
                    execute("DELETE FROM views WHERE id = ?", (id,))


RequestT = TypeVar("RequestT", ReplayRequest, StoredAction)


def _without_name(request: RequestT, erased: ErasedIds) -> RequestT:
    """Return a choice of events without ids in the name that they are to have."""
    changed = request
    if request.event is not None:
        changed = msgspec.structs.replace(changed, event=erased.taken_from(request.event))
    letters = request.dead_letters if isinstance(request, ReplayRequest) else None
    if letters is not None and letters.event is not None:
        event = erased.taken_from(letters.event)
        changed = msgspec.structs.replace(changed, dead_letters=msgspec.structs.replace(letters, event=event))
    return changed


def _without_names(changes: Sequence[dict[str, Any]], erased: ErasedIds) -> list[dict[str, Any]]:
    """Return changes of the audit log without ids in the names of events that replays ask for."""
    cleaned = []
    for change in changes:
        after = change.get("after")
        if change.get("path") == "event" and isinstance(after, str):
            after = erased.taken_from(after)
        elif isinstance(after, dict) and isinstance(after.get("event"), str):
            after = {**after, "event": erased.taken_from(after["event"])}
        cleaned.append({**change, "after": after} if change.get("object", "").startswith(REPLAYS) else change)
    return cleaned


def _without(value: Any, erased: Collection[str]) -> Any:
    """Return the same JSON with these texts replaced wherever they stand as a value."""
    if isinstance(value, str):
        return ERASED if value in erased else value
    if isinstance(value, list):
        return [_without(each, erased) for each in value]
    if isinstance(value, dict):
        return {name: _without(each, erased) for name, each in value.items()}
    return value


class EverSentTo:
    """Says where audiences and computed traits were ever sent, by all their versions. For one thread."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)

    def destinations(self, definitions: Iterable[Key]) -> dict[Key, set[str]]:
        """Return the destinations that each of these had in some version, also of a definition that was deleted."""
        connection = self._database.open()
        found: dict[Key, set[str]] = {}
        for key in set(definitions):
            kind = KINDS[key[0]]
            query = "SELECT DISTINCT document FROM objects WHERE kind = ? AND id = ?"
            rows = () if connection is None else connection.execute(query, (kind, key[1])).fetchall()
            found[key] = {id for (document,) in rows for id in decode_object(kind, document).destinations}
        return found

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()


class ErasedProfiles:
    """For one thread."""

    def __init__(self, settings: Settings) -> None:
        self._database = ReadOnly(location_of(settings, "profiles"))

    @property
    def exist(self) -> bool:
        """Return whether there are profiles at all."""
        return self._database.open() is not None

    def ids_of(self, user_ids: Sequence[str]) -> dict[str, Identities]:
        """By user id every id of the same person, before and after an alias."""
        found: dict[str, Identities] = {}
        for user_id, person in zip(user_ids, self._people(user_ids), strict=True):
            for identity in () if person is None else person.identities()[:IDENTITIES_MAX]:
                identities.add(found.setdefault(user_id, {}), {identity.id: identity.kind == "user"})
        return found

    def sources_of(self, user_ids: Sequence[str]) -> list[set[str]]:
        """For each user id the sources that gave the person traits, of events that are gone by now too."""
        people = self._people(user_ids)
        return [set() if person is None else {trait.source for trait in person.traits().values()} for person in people]

    def synced_by(self, user_ids: Sequence[str]) -> list[set[Key]]:
        """For each user id the definitions whose syncs have sent something about the person."""
        connection = self._database.open()
        if connection is None:
            return [set() for _ in user_ids]
        results = SyncResults(connection)
        return [set() if person is None else results.sent_about(person) for person in self._people(user_ids)]

    def _people(self, user_ids: Sequence[str]) -> list[Person | None]:
        connection = self._database.open()
        return [None if connection is None else People(connection).by_user_id(user_id) for user_id in user_ids]

    def answer(self, request: DeletionRequest) -> tuple[int, int] | None:
        """Return how many people and entries of theirs went in the round under way; None while they are still there."""
        connection = self._database.open()
        if connection is None:
            return 0, 0
        row = connection.execute(
            "SELECT people, entries FROM erasures"
            ' WHERE request = ? AND asked_at = ? AND "round" = ? AND done_at IS NOT NULL',
            (request.number, request.at_ms, request.round),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()
