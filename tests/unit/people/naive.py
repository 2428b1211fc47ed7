"""The rules of people, the slow way: every event in a list, merging moves events, everything is worked out anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hookline.events.timestamps import parse
from hookline.journal.record import Record
from hookline.people.definitions.feature import Entry, Feature

Condition = Callable[[dict[str, Any]], bool]


class Someone:
    """A person: ids and events."""

    def __init__(self, user_id: str | None) -> None:
        self.user_id = user_id
        self.events: list[tuple[int, Record, dict[str, Any]]] = []


class Naive:
    """People after some records, each with its position."""

    def __init__(self, records: Iterable[tuple[int, Record]]) -> None:
        self.users: dict[str, Someone] = {}
        self.anonymous: dict[str, Someone] = {}
        for position, record in records:
            self._apply(position, record)

    def _apply(self, position: int, record: Record) -> None:
        body = msgspec.json.decode(record.body)
        user_id, anonymous_id = body.get("userId"), body.get("anonymousId")
        if user_id and anonymous_id:
            self._belongs(anonymous_id, user_id)
        if record.type == "alias":
            self._alias(user_id, body["previousId"])
        if user_id:
            person = self.users.setdefault(user_id, self.users.get(user_id) or Someone(user_id))
        else:
            person = self.anonymous.setdefault(anonymous_id, self.anonymous.get(anonymous_id) or Someone(None))
        person.events.append((position, record, body))

    def _belongs(self, anonymous_id: str, user_id: str) -> None:
        holder, user = self.anonymous.get(anonymous_id), self.users.get(user_id)
        if holder is not None and holder.user_id is None:
            if user is None:
                holder.user_id = user_id
                self.users[user_id] = user = holder
            else:
                self._merge(holder, user)
        elif user is None:
            self.users[user_id] = user = Someone(user_id)
        self.anonymous[anonymous_id] = user

    def _alias(self, user_id: str, previous_id: str) -> None:
        if user_id == previous_id:
            return
        previous = self.users.get(previous_id)
        if previous is not None:
            user = self.users.get(user_id)
            if user is None:
                self.users[user_id] = previous
                previous.user_id = user_id
            elif user is not previous:
                self._merge(previous, user)
        elif previous_id in self.anonymous:
            self._belongs(previous_id, user_id)
        else:
            self._belongs(previous_id, user_id)
            self.users[previous_id] = self.users[user_id]

    def _merge(self, person: Someone, into: Someone) -> None:
        into.events += person.events
        for ids in (self.users, self.anonymous):
            for id, someone in ids.items():
                if someone is person:
                    ids[id] = into

    def people(self) -> list[Someone]:
        """Everybody, once."""
        return list({id(each): each for each in (*self.users.values(), *self.anonymous.values())}.values())

    def identities(self, person: Someone) -> set[tuple[str, str]]:
        """Every id that leads to a person."""
        users = {("user", id) for id, each in self.users.items() if each is person}
        return users | {("anonymous", id) for id, each in self.anonymous.items() if each is person}


def traits_of(person: Someone) -> dict[str, tuple[Any, int]]:
    """Each trait's value and place; the latest by time and position."""
    return _latest([(each, body.get("traits", {})) for *each, body in person.events if each[1].type == "identify"])


def groups_of(person: Someone) -> dict[str, tuple[int, int]]:
    """Each group with the time and place of the earliest event that says so."""
    found: dict[str, tuple[int, int]] = {}
    for position, record, body in person.events:
        if record.type == "group":
            since = parse(record.timestamp) or 0, position
            found[body["groupId"]] = min(since, found.get(body["groupId"], since))
    return found


def group_traits_of(people: Iterable[Someone], group: str) -> dict[str, tuple[Any, int]]:
    """Each trait of a group, whoever gave it."""
    events = [event for person in people for event in person.events]
    return _latest(
        [
            (each, body.get("traits", {}))
            for *each, body in events
            if each[1].type == "group" and body["groupId"] == group
        ]
    )


def entries_of(person: Someone, feature: Feature, holds: Condition) -> list[Entry]:
    """The events of a feature, each mark at its smallest place."""
    first: dict[int, Entry] = {}
    for position, record, body in sorted(person.events, key=lambda event: event[0]):
        name = body.get("event" if record.type == "track" else "name", "")
        if record.type == feature.type and feature.name in ("", name) and holds(body):
            mark = int.from_bytes(record.fingerprint[:8], "little")
            value = body.get("properties", {}).get(feature.value.removeprefix("properties.")) if feature.value else None
            kept = value if isinstance(value, str | int | float) else None
            first.setdefault(mark, Entry(parse(record.timestamp) or 0, mark, position, kept))
    return sorted(first.values(), key=lambda entry: (entry.at_ms, entry.position))


def _latest(given: list[tuple[list[Any], dict[str, Any]]]) -> dict[str, tuple[Any, int]]:
    found: dict[str, tuple[tuple[int, int], Any]] = {}
    for (position, record), traits in given:
        key = parse(record.timestamp) or 0, position
        for name, value in traits.items():
            if name not in found or key > found[name][0]:
                found[name] = key, value
    return {name: (value, key[1]) for name, (key, value) in found.items()}
