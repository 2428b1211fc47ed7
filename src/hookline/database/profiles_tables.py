"""The tables of the database of people, and of what they did as far as definitions ask. Written by profiles only.

A person is one or more rows of ``persons``: merging writes one row of ``merged`` and moves nothing, so every other
table keeps the number under which it was written. ``history`` is an append-only tree: new entries go to the open
chunk, and chunks of a level are put together into one of the next (decision 0019). New traits stand in chunks too,
until they are folded into ``persons``. Ids of callers that are long stand in keys by their hash, and as a whole in
``long_ids``. Times are milliseconds since the epoch. Read by migrations and their tests; the roles write plain SQL and
never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

persons = Table(
    "persons",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", Text),
    Column("first_seen", BigInteger, nullable=False),
    Column("traits", LargeBinary),
)

merged = Table(
    "merged",
    metadata,
    Column("person", Integer, primary_key=True, autoincrement=False),
    Column("into_person", BigInteger, nullable=False),
)
Index("merged_into", merged.c.into_person)

identities = Table(
    "identities",
    metadata,
    Column("kind", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, primary_key=True),
    Column("person", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
Index("identities_person", identities.c.person)

repointed = Table(
    "repointed",
    metadata,
    Column("id", Text, primary_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("person", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

long_ids = Table(
    "long_ids",
    metadata,
    Column("key", Text, primary_key=True),
    Column("id", Text, nullable=False),
    sqlite_with_rowid=False,
)

groups = Table(
    "groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("traits", LargeBinary),
    sqlite_with_rowid=False,
)

memberships = Table(
    "memberships",
    metadata,
    Column("group_id", Text, primary_key=True),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("since", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
Index("memberships_person", memberships.c.person)

new_traits = Table(
    "new_traits",
    metadata,
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("traits", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

trait_chunks = Table(
    "trait_chunks",
    metadata,
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("people", Integer, nullable=False),
)

features = Table(
    "features",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("condition", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("window_ms", BigInteger),
    Column("purpose", Integer, nullable=False, server_default="0"),
)
Index("features_what", features.c.type, features.c.name)

backfills = Table(
    "backfills",
    metadata,
    Column("feature", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

history = Table(
    "history",
    metadata,
    Column("feature", Integer, primary_key=True, autoincrement=False),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("bucket", BigInteger, primary_key=True, autoincrement=False),
    Column("entries", LargeBinary, nullable=False),
    Column("entry_values", LargeBinary),
    sqlite_with_rowid=False,
)

chunks = Table(
    "chunks",
    metadata,
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("level", Integer, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("shift", Integer, nullable=False, server_default="0"),
)

places = Table(
    "places",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),
)

definitions = Table(
    "definitions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("judged", Text, nullable=False),
    Column("evaluated", BigInteger),
    Column("number", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("sending_at", BigInteger),
    Column("sending_batch", BigInteger),
    Column("told", Text),
)
Index("definitions_what", definitions.c.kind, definitions.c.name, unique=True)

members = Table(
    "members",
    metadata,
    Column("definition", Integer, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger),
    Column("sent", Text),
    Column("sync", Integer),
    Column("since_sync", Integer),
    sqlite_with_rowid=False,
)
Index("members_due", members.c.definition, members.c.until, sqlite_where=members.c.until.isnot(None))
Index("members_sync", members.c.definition, members.c.sync, sqlite_where=members.c.sync.isnot(None))

membership_changes = Table(
    "membership_changes",
    metadata,
    Column("definition", Integer, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("member", Integer, nullable=False),
    Column("sync", Integer),
    sqlite_with_rowid=False,
)

introductions = Table(
    "introductions",
    metadata,
    Column("definition", Integer, primary_key=True, autoincrement=False),
    Column("destinations", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("person", BigInteger, nullable=False),
)

syncs = Table(
    "syncs",
    metadata,
    Column("definition", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=False),
    Column("came", BigInteger, nullable=False),
    Column("went", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

touched = Table(
    "touched",
    metadata,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

erasures = Table(
    "erasures",
    metadata,
    Column("request", BigInteger, primary_key=True, autoincrement=False),
    Column("asked_at", BigInteger, primary_key=True, autoincrement=False),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("people", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("done_at", BigInteger),
)

previews = Table(
    "previews",
    metadata,
    Column("id", Text, primary_key=True),
    Column("asked_at", BigInteger, nullable=False),
    Column("definition", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("progress", Float, nullable=False),
    Column("people", BigInteger),
    Column("members", BigInteger),
    Column("detail", Text),
    sqlite_with_rowid=False,
)

preview_sample = Table(
    "preview_sample",
    metadata,
    Column("preview", Text, primary_key=True),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
