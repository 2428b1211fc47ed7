"""Take people's ids, and the messageIds of their events, out of what control itself keeps, and follow what profiles
did."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from hookline.database.connect import Shared, empty_log, overwrite_deleted
from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.people.definitions.definition import Key
from hookline.people.store.people import People, Person
from hookline.people.sync.results import SyncResults
from hookline.privacy import identities
from hookline.privacy.identities import Identities
from hookline.privacy.model import DeletionRequest
from hookline.privacy.search import IDENTITIES_MAX
from hookline.replays.model import ReplayRequest
from hookline.replays.store import ReplayStore
from hookline.settings import Settings

ERASED = "erased"
"""What stands where an id was."""
REPLAYS = "replays/"
AFTER_REPLAYS = "replays0"
"""The smallest text behind all that begin with ``REPLAYS``."""

_request = msgspec.json.Decoder(ReplayRequest).decode
_WORD = re.compile(r"[\w.+@-]*\w")


class Forgetting:
    """Works on ``control.db``; may be done twice."""

    def __init__(self, database: Shared, replays: ReplayStore) -> None:
        self._database = database
        self._replays = replays

    def forget(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        """Leave nothing of these in rows, free pages and the log; open replays that name them are cancelled."""
        self._database.read(overwrite_deleted)
        self._forget_replays(ids, message_ids)
        self._forget_audit({*ids, *message_ids})
        self._forget_issues({*ids, *message_ids})
        self._forget_views({*ids, *message_ids})
        self._database.read(empty_log)

    def _forget_replays(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        for lane, text, ended_at in self._database.rows("SELECT lane, request, ended_at FROM replays"):
            request = _request(text)
            named = request.message_ids or ()
            changed = msgspec.structs.replace(
                request,
                user_id=ERASED if request.user_id in ids else request.user_id,
                message_ids=tuple(ERASED if id in message_ids else id for id in named) or None,
            )
            if changed == request:
                continue
            if ended_at is None:
                self._replays.want(lane, "cancelled", request.rate)
            with self._database.transaction() as execute:
                execute("UPDATE replays SET request = ? WHERE lane = ?", (msgspec.json.encode(changed).decode(), lane))

    def _forget_audit(self, erased: Collection[str]) -> None:
        """Of the audit log only the entries of replays hold ids of people."""
        rows = self._database.rows(
            "SELECT id, changes FROM audit_log WHERE target >= ? AND target < ?", (REPLAYS, AFTER_REPLAYS)
        )
        for id, text in rows:
            changes = msgspec.json.decode(text)
            cleaned = _without(changes, erased)
            if cleaned != changes:
                with self._database.transaction() as execute:
                    execute(
                        "UPDATE audit_log SET changes = ? WHERE id = ?", (msgspec.json.encode(cleaned).decode(), id)
                    )

    def _forget_issues(self, erased: Collection[str]) -> None:
        """Take the words of issues that name one of them; the next failure brings them back without."""
        wanted = {each.casefold() for each in erased}
        no_words = [each for each in wanted if not _WORD.fullmatch(each)]
        for id, message in self._database.rows("SELECT id, message FROM issues WHERE message IS NOT NULL"):
            said = message.casefold()
            if not wanted.isdisjoint(_WORD.findall(said)) or any(each in said for each in no_words):
                with self._database.transaction() as execute:
                    execute("UPDATE issues SET message = NULL WHERE id = ?", (id,))

    def _forget_views(self, erased: Collection[str]) -> None:
        """Delete the saved views that look for one of them: there is nothing to see any more."""
        for id, path, query in self._database.rows("SELECT id, path, query FROM views"):
            named = {unquote(each) for each in path.split("/")} | {each for _, each in parse_qsl(query)}
            if not named.isdisjoint(erased):
                with self._database.transaction() as execute:
                    execute("DELETE FROM views WHERE id = ?", (id,))


def _without(value: Any, erased: Collection[str]) -> Any:
    """Return the same JSON with these texts replaced wherever they stand as a value."""
    if isinstance(value, str):
        return ERASED if value in erased else value
    if isinstance(value, list):
        return [_without(each, erased) for each in value]
    if isinstance(value, dict):
        return {name: _without(each, erased) for name, each in value.items()}
    return value


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
