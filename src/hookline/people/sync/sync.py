"""Syncs: who is a member of what, and sending destinations what has changed since they were last synced.

Destinations that are added to a definition are synced alone, in a first sync. While it is under way, no other sync of
the definition is; until it is done, syncs go to the destinations that were
there before. So every destination knows of everybody what ``members.sent`` says, and none is sent anything twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from hookline.connections.definitions.model import Definition
from hookline.database.connect import insert_many
from hookline.database.connection import overwriting, replacing
from hookline.events.timestamps import iso
from hookline.journal.record import FORMAT_VERSION, SYNC_SOURCE, Record, fingerprint
from hookline.people.definitions.aggregates import NEVER
from hookline.people.definitions.definition import CompiledDefinition, Key, as_json, key_of
from hookline.people.definitions.feature import Feature
from hookline.people.slice import Slice, everybody
from hookline.people.store import people
from hookline.people.store.people import Held
from hookline.people.store.store import ProfileStore
from hookline.people.sync.results import TRUE
from hookline.telemetry.crashpoints import crash_point

FIRST_SYNC_PEOPLE_PER_STEP = 500
DIVERSE = " null"
"""In place of what was sent about somebody where destinations know different things: whatever holds is news. It is
JSON, as an earlier version would send it, with a blank that no value is written with."""

Destinations = tuple[str, ...]
PersonValues = list[tuple[int, str, str]]
"""Person, user id and value."""


class FirstSync(NamedTuple):
    """The sync of some destinations alone: its number and time, and up to which person it has come."""

    ready: CompiledDefinition
    definition: int
    made: int | None
    number: int
    at_ms: int
    to: Destinations
    person: int


class FirstSyncs:
    """Used from the thread of the one writer, between the steps of syncs."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store
        self._ready: dict[int, CompiledDefinition] = {}
        self._synced_to: dict[int, Destinations] = {}

    def follow(
        self, definitions: Sequence[CompiledDefinition], numbers: Mapping[Key, int], lists: Mapping[Key, Destinations]
    ) -> None:
        """Go by these definitions; within a transaction. ``lists`` are the destinations that a definition had all the
        time since it was last followed, where it has changed."""
        execute = self._store.connection.execute
        kept = dict(execute("SELECT id, told FROM definitions").fetchall())
        under_way = dict(execute("SELECT definition, destinations FROM introductions").fetchall())
        self._ready = {numbers[ready.key]: ready for ready in definitions}
        for definition, ready in self._ready.items():
            known, wanted = kept[definition], ready.destinations
            always_in = lists.get(ready.key, wanted)
            if definition in under_way:
                self._narrow(definition, _read(under_way[definition]), always_in)
            if known is not None:
                wanted = _those(_read(known), always_in)
            self._synced_to[definition] = wanted
            if known != (written := _written(self._synced_to[definition])):
                execute("UPDATE definitions SET told = ? WHERE id = ?", (written, definition))

    def in_step(self, definition: int) -> Destinations:
        """Return the destinations that know what the definition's last sync sent."""
        return self._synced_to[definition]

    def is_due(self, definition: int) -> bool:
        """Return whether destinations of the definition have to be synced with what the others know."""
        return not set(self._ready[definition].destinations) <= set(self._synced_to[definition])

    def next(self, now_ms: int, but: int | None) -> tuple[FirstSync, PersonValues] | None:
        """Return an first_sync that is due, and the next people of it, none when it is through; not of the definition
        ``but``, whose people are being looked at."""
        for definition in self._ready:
            if definition != but and self.is_due(definition):
                first_sync = self._first_sync(definition, now_ms)
                return first_sync, self._people(first_sync)
        return None

    def sent(self, first_sync: FirstSync, people: Sequence[int], withheld: Collection[int]) -> None:
        """These people's messages are in the journal, but of those ``withheld`` among them nothing; without any, the
        destinations are as far as the others."""
        execute, definition = self._store.connection.execute, first_sync.definition
        if people:
            with self._store.transaction():
                execute("UPDATE introductions SET person = ? WHERE definition = ?", (people[-1], definition))
                query = "UPDATE members SET sent = ? WHERE definition = ? AND person = ?"
                rows = [(DIVERSE, definition, person) for person in withheld]
                self._store.connection.executemany(query, rows)
            return
        synced_to = self._synced_to[definition] + first_sync.to
        with self._store.transaction():
            execute("DELETE FROM introductions WHERE definition = ?", (definition,))
            query = "UPDATE definitions SET told = ?, number = ? WHERE id = ?"
            execute(query, (_written(synced_to), first_sync.number, definition))
        self._synced_to[definition] = synced_to

    def _narrow(self, definition: int, to: Destinations, always_in: Destinations) -> None:
        """Take what was taken out from a first sync under way: added again, it begins anew, under other messageIds."""
        execute, left = self._store.connection.execute, _those(to, always_in)
        if left == to:
            return
        if left:
            execute("UPDATE introductions SET destinations = ? WHERE definition = ?", (_written(left), definition))
        else:
            execute("DELETE FROM introductions WHERE definition = ?", (definition,))
        execute("UPDATE definitions SET number = number + 1 WHERE id = ?", (definition,))

    def _first_sync(self, definition: int, now_ms: int) -> FirstSync:
        """Return the one under way, or one that begins; those that were added since it began come after it."""
        execute, ready = self._store.connection.execute, self._ready[definition]
        query = "SELECT made, number + 1, evaluated IS NULL FROM definitions WHERE id = ?"
        ((made, number, is_anew),) = execute(query, (definition,)).fetchall()
        query = "SELECT destinations, at, person FROM introductions WHERE definition = ?"
        row = execute(query, (definition,)).fetchone()
        if row is None:
            if is_anew and not self._synced_to[definition]:
                # No destination knows what was sent, perhaps long ago: they get what the look at everybody finds.
                query = "UPDATE members SET sent = ? WHERE definition = ? AND sent <> ?"
                execute(query, (ready.empty, definition, ready.empty))
            missing = tuple(each for each in ready.destinations if each not in self._synced_to[definition])
            row = _written(missing), now_ms, 0
            execute("INSERT INTO introductions VALUES (?, ?, ?, ?)", (definition, *row))
        destinations, at_ms, person = row
        return FirstSync(ready, definition, made, number, at_ms, _read(destinations), person)

    def _people(self, first_sync: FirstSync) -> PersonValues:
        query = (
            "SELECT m.person, p.user_id, m.sent FROM members m JOIN persons p ON p.id = m.person"
            " WHERE m.definition = ? AND m.person > ? AND m.sent NOT IN (?, ?) AND p.user_id IS NOT NULL"
            # What holds of them is sent under the id that they have since, once they are looked at.
            " AND NOT EXISTS (SELECT 1 FROM merged g WHERE g.person = m.person)"
            " ORDER BY m.person LIMIT ?"
        )
        nothing = first_sync.ready.empty, DIVERSE
        values = (first_sync.definition, first_sync.person, *nothing, FIRST_SYNC_PEOPLE_PER_STEP)
        return self._store.connection.execute(query, values).fetchall()


def _those(destinations: Destinations, of: Destinations) -> Destinations:
    return tuple(each for each in destinations if each in of)


def _written(destinations: Destinations) -> str:
    return msgspec.json.encode(destinations).decode()


def _read(written: str) -> Destinations:
    return msgspec.json.decode(written, type=Destinations)


_KEPT = 64


def message(
    ready: CompiledDefinition,
    made: int | None,
    number: int,
    user_id: str,
    value: str,
    at_ms: int,
    now_ms: int,
    to: tuple[str, ...],
) -> Record:
    """Return the record of one message of a sync at ``at_ms``; the same for the same sync, user and value, messageId
    included. ``made`` distinguishes the syncs of a definition from those of one that had its id before."""
    kind, id = ready.key
    message_id = f"{kind}-{_state(kind, id, made, number, user_id, value)}"
    body = b'{"type":"identify","userId":%b,"traits":{%b:%b},%b}' % (
        msgspec.json.encode(user_id),
        msgspec.json.encode(ready.trait),
        value.encode(),
        _behind(kind, id, ready.trait, ready.published),
    )
    return Record(
        FORMAT_VERSION,
        False,
        now_ms,
        SYNC_SOURCE,
        "identify",
        message_id,
        fingerprint(SYNC_SOURCE, message_id),
        user_id,
        iso(at_ms),
        kind,
        body,
        to=to,
    )


def _state(kind: str, id: str, made: int | None, number: int, user_id: str, value: str) -> str:
    # With the value: a database that went back counts on from an earlier sync, and another value may hold in it by now.
    sync = f"{number}" if made is None else f"{made}\0{number}\0{value}"
    return blake2b(f"{kind}\0{id}\0{sync}\0{user_id}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=_KEPT)
def _behind(kind: str, id: str, trait: str, published: tuple[str, ...]) -> bytes:
    """Return the context, as Segment names it so that receivers of Personas need not change, and the destination
    selection: in the context as well, which receivers are sent."""
    selection = {"All": False} | dict.fromkeys(published, True)
    personas = {"computation_class": kind, "computation_key": trait, "computation_id": id}
    context = {"personas": personas, "integrations": selection}
    return msgspec.json.encode({"context": context, "integrations": selection})[1:-1]


PEOPLE_PER_STEP = 5_000
MESSAGES_PER_STEP = 500
SYNCS_KEPT = 1_000
"""Of each definition."""
OF_A_DEFINITION = (
    ("definitions", "id"),
    ("members", "definition"),
    ("membership_changes", "definition"),
    ("introductions", "definition"),
    ("syncs", "definition"),
)
"""The tables that have rows of a definition, and where in them its number stands."""

_KEEP_SENT = (
    "INSERT INTO sent_before (person, kind, name) SELECT person, ?, ? FROM members"
    " WHERE definition = ? AND sent IS NOT NULL ON CONFLICT (person, kind, name) DO NOTHING"
)


class Running(NamedTuple):
    """A sync under way: its number and time, up to which batch it sees, and the slices of people left to look at."""

    ready: CompiledDefinition
    definition: int
    number: int
    at_ms: int
    batch: int
    slices: Iterator[tuple[list[int], bool]]


class Sending(NamedTuple):
    """A sync whose values are written and that has to be sent, or what destinations that were added are sent."""

    ready: CompiledDefinition
    definition: int
    made: int | None
    """The version of the connections that it was made in; None in what is left of a sync by an earlier Hookline."""
    number: int
    at_ms: int
    first_sync: FirstSync | None = None


class Sync:
    """Used from the thread of the one writer."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store
        self._ready: dict[Key, CompiledDefinition] = {}
        self._made: Mapping[Key, int] = {}
        self.numbers: dict[Key, int] = {}
        """Of the definitions there are, as ``members`` has them."""
        self._running: Running | None = None
        self._looked_at = frozenset[Key]()
        """In this round: where looking takes long, those that are due again do not go before the others."""
        self._first_syncs = FirstSyncs(store)
        self.sent_total = 0
        """Messages since the start."""

    def followed(self) -> dict[Key, int]:
        """Return in which version of the connections each definition was enabled last, where that is known."""
        rows = self._store.connection.execute(_ALL).fetchall()
        return {(kind, name): followed for *_, followed, kind, name in rows if followed is not None}

    def follow(
        self,
        definitions: Sequence[CompiledDefinition],
        made: Mapping[Key, int],
        version: int | None = None,
        since: Iterable[tuple[int, Definition]] = (),
    ) -> None:
        """Go by these definitions, in this order; what is not in ``made`` any more goes with its members.

        ``made`` has the version of the connections in which each definition, enabled or not, was made. It does not go
        back with the database, nor come again for one that is deleted and made again. ``version`` is the one in force,
        and ``since`` are definitions as they were before, each until a version: a destination that was taken out of one
        and added again since it was followed is new.
        """
        running, self._running = self._running, None
        with self._store.transaction() as execute:
            known = {(kind, name): row for *row, kind, name in execute(_ALL)}
            for key, (id, _, _, made_before, _) in list(known.items()):
                # Or made again since the last look; an earlier Hookline did not note which one it was.
                if key not in made or made_before not in (None, made[key]):
                    execute(_KEEP_SENT, (*key, id))
                    for table, column in OF_A_DEFINITION:
                        execute(f"DELETE FROM {table} WHERE {column} = ?", (id,))
                    del known[key]
            ready_by_key = {ready.key: ready for ready in definitions}
            for key, ready in ready_by_key.items():
                if key not in known:
                    query = (
                        "INSERT INTO definitions (kind, name, judged, trait, made, number, next_at)"
                        " VALUES (?, ?, ?, ?, ?, 0, 0)"
                    )
                    execute(query, (*key, ready.judged, ready.trait, made[key]))
            for key, (id, judged, trait, *_) in known.items():
                follows = ready_by_key.get(key)
                is_renamed = False
                if follows is not None and trait is not None and follows.trait != trait:
                    # Under the new name destinations know nothing of anybody; that they were sent something stays.
                    is_renamed, query = True, "UPDATE members SET sent = ? WHERE definition = ? AND sent IS NOT NULL"
                    execute(query, (follows.empty, id))
                # Changed, renamed, or disabled: everybody is looked at anew, in a sync of another number.
                if is_renamed or follows is None or follows.judged != judged:
                    execute(_BEGIN_ANEW, ("" if follows is None else follows.judged, id))
                if follows is not None and follows.trait != trait:
                    execute("UPDATE definitions SET trait = ? WHERE id = ?", (follows.trait, id))
            self.numbers = {(kind, name): id for id, *_, kind, name in execute(_ALL)}
            followed = {key: row[-1] for key, row in known.items()}
            self._first_syncs.follow(definitions, self.numbers, _always_in(ready_by_key, followed, since))
            query = "UPDATE definitions SET followed = ? WHERE id = ?"
            self._store.connection.executemany(query, [(version, self.numbers[key]) for key in ready_by_key])
        self._ready = ready_by_key
        self._made = made
        self._store.tracks = bool(self.numbers)
        # Else a look at everybody would never end where something else changes again and again meanwhile.
        if running is not None and self._goes_on(running):
            self._running = running

    def _goes_on(self, running: Running) -> bool:
        """Return whether a look at people that is under way is as one that would begin now."""
        was, now = running.ready, self._ready.get(running.ready.key)
        if now is None or now._replace(judge=was.judge) != was or not self.have_values(was.needs):
            return False
        query = "SELECT 1 FROM definitions WHERE id = ? AND (kind, name, number) = (?, ?, ?)"
        values = (running.definition, *was.key, running.number - 1)
        return self._store.connection.execute(query, values).fetchone() is not None

    def bring_forward(self, key: Key) -> bool:
        """Make the next sync of a definition due now; False while one is under way."""
        definition = self.numbers.get(key)
        if definition is None or key not in self._ready:
            return True  # it was deleted or disabled since
        if self._running is not None and self._running.definition == definition:
            return False
        query = "UPDATE definitions SET next_at = 0 WHERE id = ? AND sending_at IS NULL"
        return bool(self._store.connection.execute(query, (definition,)).rowcount)

    def have_values(self, keys: Iterable[Key]) -> bool:
        """Return whether each of these definitions, as far as it is enabled, was judged for everybody."""
        query = "SELECT 1 FROM definitions WHERE id = ? AND evaluated IS NULL AND sending_at IS NULL"
        execute = self._store.connection.execute
        return not any(execute(query, (self.numbers[key],)).fetchone() for key in keys if key in self._ready)

    def evaluate(self, now_ms: int, unready: frozenset[Feature] = frozenset()) -> bool:
        """Take one step of looking at people; return whether there was one. ``unready`` are features whose history is
        not complete: what asks for them waits."""
        # What fails leaves people out of the slices that are left: everybody is looked at anew then.
        running, self._running = self._running or self._begin(now_ms, unready), None
        if running is None:
            return False
        people, in_a_row = next(running.slices, ([], False))
        if people:
            self._judge(running, people, in_a_row)
            self._running = running
            return True
        self._store.connection.execute(
            "UPDATE definitions SET sending_at = ?, sending_batch = ? WHERE id = ?",
            (running.at_ms, running.batch, running.definition),
        )
        return True

    def to_send(self, now_ms: int) -> tuple[Sending, list[tuple[int, Record]]] | None:
        """Return the next messages of a sync that is to be sent, by person; none when all of it is sent already."""
        query = (
            "SELECT id, kind, name, made, number + 1, sending_at FROM definitions WHERE sending_at IS NOT NULL"
            " ORDER BY id"
        )
        for definition, kind, name, made, number, at_ms in self._store.connection.execute(query).fetchall():
            ready = self._ready.get((kind, name))
            if ready is not None:
                return (sending := Sending(ready, definition, made, number, at_ms)), self._messages(sending, now_ms)
        return self._next_of_first_sync(now_ms)

    def sent(
        self, sending: Sending, people: Sequence[int], now_ms: int, withheld: Collection[int] = frozenset()
    ) -> None:
        """Their messages are in the journal; without any people, the sync is done. Of those ``withheld`` among them
        nothing was sent: what they differ in is news again when they are next looked at."""
        if sending.first_sync is not None:
            self._first_syncs.sent(sending.first_sync, people, withheld)
        else:
            query = (
                "UPDATE members SET sent = CASE WHEN ? THEN sent ELSE value END, sync = NULL"
                " WHERE definition = ? AND person = ?"
            )
            rows = [(person in withheld, sending.definition, person) for person in people]
            with self._store.transaction():
                if rows:
                    self._store.connection.executemany(query, rows)
                else:
                    self._finish(sending, now_ms)
        self.sent_total += len(people) - len(withheld)
        crash_point("profiles.synced")

    # looking at people

    def _begin(self, now_ms: int, unready: frozenset[Feature]) -> Running | None:
        query = "SELECT id, kind, name, number, evaluated FROM definitions WHERE next_at <= ? AND sending_at IS NULL"
        due = {(kind, name): row for *row, kind, name in self._due(query, now_ms)}
        for looked_at in (self._looked_at, frozenset[Key]()):  # what is left of this round, or another one
            missing = due.keys() - looked_at
            for key, ready in self._ready.items():
                if key in missing and not ready.features & unready:
                    definition, number, evaluated = due[key]
                    if self._first_syncs.is_due(definition):
                        continue
                    if not missing.isdisjoint(ready.needs & self._ready.keys()) and evaluated is None:
                        continue  # what it asks for has no values yet
                    self._looked_at = looked_at | {key}
                    slices = self._slices(definition, evaluated, now_ms)
                    return Running(ready, definition, number + 1, now_ms, self._store.looked(), slices)
        return None

    def _due(self, query: str, now_ms: int) -> list[tuple[Any, ...]]:
        rows = self._store.connection.execute(query, (now_ms,)).fetchall()
        return [(id, number, evaluated, kind, name) for id, kind, name, number, evaluated in rows]

    def _slices(self, definition: int, evaluated: int | None, now_ms: int) -> Iterator[tuple[list[int], bool]]:
        execute = self._store.connection.execute
        if evaluated is None:
            yield from ((people, True) for people in everybody(self._store, PEOPLE_PER_STEP))
            return
        query = (
            "SELECT DISTINCT coalesce(m.into_person, t.person) FROM touched t LEFT JOIN merged m ON m.person = t.person"
            " WHERE t.batch > ? UNION SELECT person FROM members WHERE definition = ? AND until <= ?"
        )
        due = sorted(person for (person,) in execute(query, (evaluated, definition, now_ms)))
        for first in range(0, len(due), PEOPLE_PER_STEP):
            # Those who were merged into others, or erased, since it began are left out.
            query = "SELECT id FROM persons WHERE NOT EXISTS (SELECT 1 FROM merged WHERE person = id) AND id IN "
            found = {person for (person,) in self._store.many(query, due[first : first + PEOPLE_PER_STEP])}
            if found:
                yield sorted(found), False

    def _judge(self, running: Running, people: list[int], in_a_row: bool) -> None:
        ready, definition, at_ms = running.ready, running.definition, running.at_ms
        here = Slice(self._store, people, ready, self.numbers, in_a_row)
        before, merged = self._before(definition, people), self._before(definition, here.merged)
        # Who was sent something under a number that is merged was so for good: it must be deleted there, too.
        inherited = {here.merged[person] for person, (_, _, sent, _) in merged.items() if sent is not None}
        rows: list[tuple[Any, ...]] = []
        changed: list[int] = []
        for person, facts in here.facts():
            value, until = ready.judge(facts, at_ms)
            text = ready.empty if value is None else as_json(value)
            was, since, sent, since_sync = before.get(person, (ready.empty, at_ms, None, None))
            if text != was:
                since, since_sync = at_ms, running.number
                changed.append(person)
            if sent is None and person in inherited:
                sent = ready.empty
            if text != ready.empty or until != NEVER or person in before or person in inherited:
                is_news = person in here.user_ids and text != (ready.empty if sent is None else sent)
                number = running.number if is_news and ready.destinations else None
                leaves = None if until == NEVER else until
                rows.append((definition, person, text, since, leaves, sent, number, since_sync))
        with self._store.transaction():
            insert_many(self._store.connection, "members", (*_KEY, *_STANDS), rows, overwriting(_KEY, _STANDS))
            if ready.key[0] == "audience":
                self._keep_history(running, {person: before[person] for person in changed if person in before}, merged)
            self._store.connection.executemany(
                "DELETE FROM members WHERE definition = ? AND person = ?",
                [(definition, person) for person in merged],
            )
            if changed and any(ready.key in each.needs for each in self._ready.values()):
                self._store.touch(changed)
        crash_point("profiles.judged")

    def _before(self, definition: int, people: Iterable[int]) -> dict[int, _Row]:
        query = (
            f"SELECT person, value, since, sent, since_sync FROM members WHERE definition = {definition:d}"
            " AND person IN "
        )
        return {person: (value, since, sent, by) for person, value, since, sent, by in self._store.many(query, people)}

    def _keep_history(self, running: Running, changed: dict[int, _Row], merged: dict[int, _Row]) -> None:
        """Keep what held until now of those who changed, and of numbers that were merged: these end being anything."""
        definition = running.definition
        ended = [
            Held(definition, person, since, value == TRUE, sync)
            for person, (value, since, _, sync) in (changed | merged).items()
        ]
        ended += [Held(definition, person, running.at_ms, False, running.number) for person in merged]
        if ended:
            people.keep(self._store.connection, ended)

    # sending

    def _next_of_first_sync(self, now_ms: int) -> tuple[Sending, list[tuple[int, Record]]] | None:
        found = self._first_syncs.next(now_ms, None if self._running is None else self._running.definition)
        if found is None:
            return None
        this, people = found
        return Sending(this.ready, this.definition, this.made, this.number, this.at_ms, this), [
            (person, message(this.ready, this.made, this.number, user_id, value, this.at_ms, now_ms, this.to))
            for person, user_id, value in people
        ]

    def _messages(self, sending: Sending, now_ms: int) -> list[tuple[int, Record]]:
        to = self._first_syncs.in_step(sending.definition)
        if not to:  # those that are added now are sent what all were sent, and that is this
            query = "UPDATE members SET sent = value, sync = NULL WHERE definition = ? AND sync IS NOT NULL"
            self._store.connection.execute(query, (sending.definition,))
            return []
        query = (
            "SELECT m.person, p.user_id, m.value FROM members m JOIN persons p ON p.id = m.person"
            " WHERE m.definition = ? AND m.sync IS NOT NULL LIMIT ?"
        )
        rows = self._store.connection.execute(query, (sending.definition, MESSAGES_PER_STEP)).fetchall()
        return [
            (person, message(sending.ready, sending.made, sending.number, user_id, value, sending.at_ms, now_ms, to))
            for person, user_id, value in rows
        ]

    def _finish(self, sending: Sending, now_ms: int) -> None:
        execute = self._store.connection.execute
        definition, empty = sending.definition, sending.ready.empty
        query = (
            "SELECT count(*) FILTER (WHERE value <> ? AND since_sync = ?),"
            " count(*) FILTER (WHERE value = ? AND since_sync = ?), count(*) FILTER (WHERE value <> ?)"
            " FROM members WHERE definition = ?"
        )
        found = execute(query, (empty, sending.number, empty, sending.number, empty, definition)).fetchone()
        query = replacing("syncs", ("definition", "number"), ("at", "finished_at", "came", "went", "people"))
        execute(query, (definition, sending.number, sending.at_ms, now_ms, *found))
        query = "DELETE FROM syncs WHERE definition = ? AND number <= ?"
        execute(query, (definition, sending.number - SYNCS_KEPT))
        # What an earlier Hookline began went on under its messageIds; from here on they are as those of the others.
        execute(
            "UPDATE definitions SET number = ?, made = coalesce(made, ?), next_at = ?, evaluated = sending_batch,"
            " sending_at = NULL, sending_batch = NULL WHERE id = ?",
            (sending.number, self._made[sending.ready.key], sending.at_ms + sending.ready.sync_ms, definition),
        )
        # What has not been looked at yet, or is, looks at everybody.
        execute("DELETE FROM touched WHERE batch <= (SELECT min(coalesce(evaluated, sending_batch)) FROM definitions)")


def _always_in(
    ready: Mapping[Key, CompiledDefinition],
    followed: Mapping[Key, int | None],
    since: Iterable[tuple[int, Definition]],
) -> dict[Key, Destinations]:
    """Return the destinations that definitions have, and had ever since they were followed, where they changed."""
    found: dict[Key, Destinations] = {}
    for until, before in since:
        key = key_of(before)
        if key in ready and until > (followed.get(key) or until):
            found[key] = _those(found.get(key, ready[key].destinations), before.destinations)
    return found


_KEY = ("definition", "person")
_STANDS = ("value", "since", "until", "sent", "sync", "since_sync")
_Row = tuple[str, int, str | None, int | None]
"""Of a person before a sync: value, since when (ms), what was sent, and the sync since which the value holds."""
_BEGIN_ANEW = (
    "UPDATE definitions SET judged = ?, evaluated = NULL, next_at = 0, number = number + 1, sending_at = NULL,"
    " sending_batch = NULL WHERE id = ?"
)
_ALL = "SELECT id, judged, trait, made, followed, kind, name FROM definitions"
