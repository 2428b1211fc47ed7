"""The tables of ``privacy.db``: deletion requests, who is suppressed, and the evidence. Written by control only.

A person's ids stand here only while a request is under way; after that a keyed hash of each (``privacy.id_digest``)
is left, and the file keeps no trace of them. Times are milliseconds since the epoch. Read by migrations and their
tests; the roles write plain SQL and never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

# SQLite makes a key the row id only if its type is spelled INTEGER.
big_key = BigInteger().with_variant(Integer, "sqlite")

suppressions = Table(
    "suppressions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("request", BigInteger),
    sqlite_with_rowid=False,
)
Index("suppressions_at", suppressions.c.at, suppressions.c.digest)

privacy_key = Table(
    "privacy_key",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)
"""One row, in PostgreSQL; beside SQLite the key is a file of the data folder."""

privacy_changes = Table(
    "privacy_changes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("next", BigInteger, nullable=False),
)

suppressed_usage = Table(
    "suppressed_usage",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)

suppressed_seen = Table(
    "suppressed_seen",
    metadata,
    Column("source", Text, primary_key=True),
    Column("started", Float, nullable=False),
    Column("events", BigInteger, nullable=False),
)

deletion_requests = Table(
    "deletion_requests",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("done_at", BigInteger),
    Column("round", Integer, nullable=False),
    Column("places", LargeBinary),
    Column("erased", Text),
    # ids are in people's hands, so the id of a row that left is never given again
    sqlite_autoincrement=True,
)
Index("deletion_requests_state", deletion_requests.c.state)

deletion_people = Table(
    "deletion_people",
    metadata,
    Column("request", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("user_id", Text),
    Column("identities", Text),
    Column("identity_count", Integer, nullable=False),
    Column("events", BigInteger, nullable=False),
)
Index("deletion_people_digest", deletion_people.c.digest)

deletion_messages = Table(
    "deletion_messages",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("request", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("destinations", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("first_at", BigInteger),
    Column("due", BigInteger, nullable=False),
)
Index("deletion_messages_request", deletion_messages.c.request, deletion_messages.c.number)
Index("deletion_messages_due", deletion_messages.c.state, deletion_messages.c.due)

deletion_receipts = Table(
    "deletion_receipts",
    metadata,
    Column("message", BigInteger, primary_key=True, autoincrement=False),
    Column("destination", Text, primary_key=True),
    Column("fate", Text, nullable=False),
    Column("reason", Text),
    Column("at", BigInteger, nullable=False),
)
