"""Whose event is it: user ids and anonymous ids lead to persons, in the order in which the journal has the events.

An event with a user id is that user's; one with an anonymous id alone is the anonymous person's. A call with both says
that the anonymous id is the user's: an anonymous person becomes that user, or is merged into it when the user is known
already. When the anonymous id is another user's, the device is shared: from that event on it is the new user's, and the
two users stay two. ``alias`` says that the previous id is the user's: two known users are merged by it, and only by it.
It says nothing where that would be one of more than ``MERGED_MAX`` numbers.

Merging writes that one number stands for another and moves nothing. The ids that were met lately are held in memory;
those of some records are loaded before the first of them is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Protocol

from hookline.database.connection import Connection
from hookline.people.ingest.cpu_throttle import memory_bytes
from hookline.people.store.batch import ANONYMOUS, USER, Batch
from hookline.telemetry.log import logger

KNOWN_LATELY_MIN, KNOWN_LATELY_MAX = 120_000, 500_000
"""Ids of each kind that are held in memory from one batch to the next; once there are more, they stay as those of
before until there are so many again, and of these the ones that are met meanwhile stay on."""
ID_BYTES = 150
"""Of an ordinary id in memory."""
MERGED_MAX = 1_000
"""Numbers of a person after an alias, for each later one may write them all again. A deletion looks for as many ids."""
MEMORY_SHARE = 64
"""Of the memory there is, a part this small is for ids: to look one up takes ten times as long as to remember it."""


class LoadsIdentities(Protocol):
    """Hold what is needed of the store."""

    def users(self, ids: Collection[str]) -> dict[str, int]:
        """Return the persons of user ids, as far as there are any."""

    def anonymous(self, ids: Collection[str]) -> dict[str, int]:
        """Return the persons of anonymous ids, as far as there are any."""

    def without_user_id(self, people: Iterable[int]) -> set[int]:
        """Those of these persons who have no user id."""

    def merged_into(self, person: int, count_max: int) -> int:
        """Return how many persons were merged into this one; no more than ``count_max`` are counted."""


class Identities:
    """Answers for the records of one batch after the other; ``begin`` gives the batch that takes what changes."""

    def __init__(self, store: LoadsIdentities, next_person: int) -> None:
        self._store = store
        self._next_person = self._first_of_batch = next_person
        self._users: dict[str, int] = {}
        self._anonymous: dict[str, int] = {}
        """Below zero where the person is known to have no user id; such a person has this one id and no other."""
        self._users_before: dict[str, int] = {}
        self._anonymous_before: dict[str, int] = {}
        self._moved: dict[int, int] = {}
        """Known users that were merged in this batch, and into whom: ids held in memory may still lead to them."""
        self._merged_before: dict[int, int] = {}
        self._merged_now: dict[int, int] = {}
        """How many were merged into persons: before this batch, as far as that was asked, and in it."""
        self._has_logged = False
        self._holds_long = False
        """Whether an id that is held is much longer than ``ID_BYTES``: none is, from this batch to the next, then."""
        self._held = min(max(memory_bytes() // MEMORY_SHARE // (4 * ID_BYTES), KNOWN_LATELY_MIN), KNOWN_LATELY_MAX)
        self._batch = Batch()

    def begin(self, batch: Batch) -> None:
        """Write what changes to this batch from now on; the one before is stored."""
        self._batch = batch
        self._first_of_batch = self._next_person
        self._merged_before, self._merged_now = {}, {}
        if self._moved or self._holds_long:
            self.forget()
        if len(self._users) > self._held:
            self._users_before, self._users = self._users, {}
        if len(self._anonymous) > self._held:
            self._anonymous_before, self._anonymous = self._anonymous, {}

    def forget(self) -> None:
        """Hold no id in memory any more; between batches only."""
        self._users, self._anonymous, self._moved = {}, {}, {}
        self._users_before, self._anonymous_before = {}, {}
        self._holds_long = False

    def abandon(self) -> None:
        """Take back what the batch changed, which will not be written: its numbers of new persons are given again."""
        self._next_person = self._first_of_batch
        self.forget()

    def load(self, who: Iterable[tuple[str, str]]) -> None:
        """Make everything known of the user ids and anonymous ids that records have, empty where they have none; what
        is not known after it is new.

        Whether an anonymous id's person has a user id already matters only where there is one beside it, and only where
        it is not that user's.
        """
        users, anonymous = self._users, self._anonymous
        new_users, new_anonymous, doubtful = set(), set(), []
        for pair in who:
            user_id, anonymous_id = pair
            if user_id and anonymous_id:
                person = users.get(user_id)
                if person is None or person != anonymous.get(anonymous_id):
                    doubtful.append(pair)
                    new_users.add(user_id)
                    new_anonymous.add(anonymous_id)
            elif user_id:
                if user_id not in users:
                    new_users.add(user_id)
            elif anonymous_id and anonymous_id not in anonymous:
                new_anonymous.add(anonymous_id)
        missing = _missing(new_users, users, self._users_before)
        if missing:
            self._holds_long = self._holds_long or any_long(missing)
            users |= self._store.users(missing)
        missing = _missing(new_anonymous, anonymous, self._anonymous_before)
        if missing:
            self._holds_long = self._holds_long or any_long(missing)
            anonymous |= self._store.anonymous(missing)
        self._look_for_user_ids(doubtful)

    def _look_for_user_ids(self, pairs: Iterable[tuple[str, str]]) -> None:
        users, anonymous, given = self._users, self._anonymous, self._batch.user_ids
        doubtful = {
            anonymous_id: person
            for user_id, anonymous_id in pairs
            if (person := anonymous.get(anonymous_id, 0)) > 0
            and person != users.get(user_id)
            and person not in given  # those are not stored yet
        }
        without = self._store.without_user_id(doubtful.values()) if doubtful else ()
        for anonymous_id, person in doubtful.items():
            if person in without:
                anonymous[anonymous_id] = -person

    def person_of(self, user_id: str, anonymous_id: str, received_at: int, position: int) -> int:
        """Return the person that an event with these ids belongs to; at least one of them is given."""
        if not user_id:
            return self._anonymous_person(anonymous_id, received_at)
        person = self._users.get(user_id)
        if self._moved and person is not None:
            person = self._now(person)
        if anonymous_id and (person is None or self._anonymous.get(anonymous_id) != person):
            person = self._link(user_id, person, anonymous_id, received_at, position)
        return self._new_user(user_id, received_at) if person is None else person

    def alias(self, user_id: str, previous_id: str, received_at: int, position: int) -> None:
        """The previous id is the user's too."""
        if user_id == previous_id:
            return
        person = self.user(user_id)
        previous = self.user(previous_id)
        if previous is None:
            is_new = previous_id not in self._anonymous
            person = self._link(user_id, person, previous_id, received_at, position)
            if is_new:  # its events may come later, under either kind
                self._point(USER, previous_id, person)
        elif person is None:
            self._point(USER, user_id, previous)
            self._batch.user_ids[previous] = user_id
        elif person != previous and self._may_merge(previous, person):
            self._batch.merged[previous] = self._moved[previous] = person

    def _may_merge(self, previous: int, person: int) -> bool:
        """Return whether two persons have few enough numbers to be one, who then has them all."""
        more = self._numbers(previous)
        if more + self._numbers(person) <= MERGED_MAX:
            self._merged_now[person] = self._merged_now.get(person, 0) + more
            return True
        if not self._has_logged:
            logger().warning("alias_not_merged", reason=f"one person would be more than {MERGED_MAX}")
            self._has_logged = True
        return False

    def _numbers(self, person: int) -> int:
        before = self._merged_before.get(person)
        if before is None:
            is_new = person >= self._first_of_batch
            before = self._merged_before[person] = 0 if is_new else self._store.merged_into(person, MERGED_MAX)
        return 1 + before + self._merged_now.get(person, 0)

    def user(self, user_id: str) -> int | None:
        """Return the person of a user id."""
        person = self._users.get(user_id)
        return None if person is None else self._now(person)

    def _now(self, person: int) -> int:
        """Return whom a person was merged into in this batch, or the person itself."""
        moved, now = self._moved, person
        while (into := moved.get(now)) is not None:
            now = into
        while person != now:  # the next look is short, however often they were merged
            moved[person], person = now, moved[person]
        return now

    def _anonymous_person(self, anonymous_id: str, received_at: int) -> int:
        person = self._anonymous.get(anonymous_id)
        if person is None:
            person = -self._new(received_at)
            self._point(ANONYMOUS, anonymous_id, person)
        person = abs(person)
        return self._now(person) if self._moved else person

    def _link(self, user_id: str, person: int | None, anonymous_id: str, received_at: int, position: int) -> int:
        """Give the anonymous id to the user; return the user's person."""
        holder = self._anonymous.get(anonymous_id)
        if person is None and holder is not None and holder < 0:
            person = -holder  # the anonymous person turns out to be this user
            self._point(USER, user_id, person)
            self._batch.user_ids[person] = user_id
        elif person is None:
            person = self._new_user(user_id, received_at)
        if holder is None:
            self._point(ANONYMOUS, anonymous_id, person)
        elif holder < 0:
            self._anonymous[anonymous_id] = person
            if -holder != person:
                self._batch.merged[-holder] = person
                self._merged_now[person] = self._merged_now.get(person, 0) + 1
        elif self._now(holder) != person:
            self._batch.repointed.append((anonymous_id, position, holder))
            self._point(ANONYMOUS, anonymous_id, person)
        return person

    def _new_user(self, user_id: str, received_at: int) -> int:
        person = self._new(received_at)
        self._point(USER, user_id, person)
        self._batch.user_ids[person] = user_id
        return person

    def _new(self, received_at: int) -> int:
        person = self._next_person
        self._next_person += 1
        self._batch.persons[person] = received_at
        return person

    def _point(self, kind: int, id: str, person: int) -> None:
        if kind == USER:
            self._users[id] = person
            self._batch.identities[USER, id] = person
        else:
            self._anonymous[id] = person
            self._batch.identities[ANONYMOUS, id] = abs(person)


def _missing(ids: set[str], known: dict[str, int], before: dict[str, int]) -> list[str]:
    """Those of the ids that are not known, sorted as they are stored; the ones that were known before are known
    again."""
    unknown = ids.difference(known)
    missing = unknown.difference(before)
    for id in unknown - missing:
        known[id] = before[id]
    return sorted(missing)


KEY_CHARACTERS_MAX = 400
"""Of an id that is its own key: at most 2,400 of the 2,700 bytes, for U+0000 is written as six."""
HASH_BYTES = 32


def key_of(id: str) -> str:
    """Return what stands for an id in the keys of tables."""
    if not is_long(id):
        return id
    digest = blake2b(id.encode(), digest_size=HASH_BYTES).hexdigest()
    return id[: KEY_CHARACTERS_MAX + 1 - len(digest)] + digest


def is_long(id: str) -> bool:
    """Return whether an id is not its own key, and a key not its own id."""
    return len(id) > KEY_CHARACTERS_MAX


def any_long(ids: Iterable[str]) -> bool:
    """Return whether one of the ids is not its own key."""
    return max(map(len, ids), default=0) > KEY_CHARACTERS_MAX


def id_of(connection: Connection, key: str) -> str:
    """Return the id that a key stands for."""
    if not is_long(key):
        return key
    row = connection.execute("SELECT id FROM long_ids WHERE key = ?", (key,)).fetchone()
    return key if row is None else str(row[0])


def remember(connection: Connection, ids: Iterable[str]) -> None:
    """Write down those of the ids that are long; within the transaction that writes their keys."""
    rows = [(key_of(id), id) for id in ids if is_long(id)]
    connection.executemany("INSERT INTO long_ids (key, id) VALUES (?, ?) ON CONFLICT DO NOTHING", rows)


def forget(connection: Connection) -> None:
    """Delete the long ids whose keys stand nowhere any more."""
    connection.execute(
        "DELETE FROM long_ids WHERE NOT EXISTS (SELECT 1 FROM identities i WHERE i.kind IN (0, 1) AND i.id = key)"
        " AND NOT EXISTS (SELECT 1 FROM repointed r WHERE r.id = key)"
        " AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = key)"
    )
