"""The tables of ``deliver.db``: how far delivery has come and what became of each event. Written by deliver only.

Nothing here grows with the stream: an event has a row only while it waits for a retry or after it failed; successes
are packed into blocks. Times are milliseconds since the epoch. Read by migrations and their tests; the roles write
plain SQL and never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

# SQLite makes a key the row id only if its type is spelled INTEGER.
big_key = BigInteger().with_variant(Integer, "sqlite")

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("version", BigInteger),
    Column("blob", LargeBinary),
)

lanes = Table(
    "lanes",
    metadata,
    Column("lane", BigInteger, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("blob", LargeBinary),
)

retries = Table(
    "retries",
    metadata,
    Column("lane", BigInteger, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("urls", Integer),
    sqlite_with_rowid=False,
)
Index("retries_due", retries.c.lane, retries.c.due)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("lane", BigInteger, nullable=False),
    Column("destination", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("fate", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("outcome", Text),
    Column("status", Integer),
    Column("error", Text),
    Column("event", Text),
    Column("first_at", BigInteger),
    # ids are in people's hands (links, cursors), so the id of a row that left is never given again
    sqlite_autoincrement=True,
)
Index("dead_letters_destination", dead_letters.c.destination, dead_letters.c.id)
Index("dead_letters_offset", dead_letters.c.partition, dead_letters.c.offset)

attempts = Table(
    "attempts",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("lane", BigInteger, nullable=False),
    Column("destination", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("url", Text),
    Column("at", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    Column("milliseconds", Integer),
    Column("next_at", BigInteger),
    Column("head", Text),
)
Index("attempts_offset", attempts.c.partition, attempts.c.offset)
Index("attempts_destination", attempts.c.destination, attempts.c.at)

outcome_blocks = Table(
    "outcome_blocks",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("partition", Integer, nullable=False),
    Column("first_offset", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("entries", LargeBinary, nullable=False),
    Column("first_at", BigInteger),
)
Index("outcome_blocks_offset", outcome_blocks.c.partition, outcome_blocks.c.first_offset)
Index("outcome_blocks_at", outcome_blocks.c.at, outcome_blocks.c.first_at)

ranges = Table(
    "ranges",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("lane", BigInteger, nullable=False),
    Column("destination", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("first_offset", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("fate", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text),
)
Index("ranges_offset", ranges.c.partition, ranges.c.first_offset)

lane_filters = Table(
    "lane_filters",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("lane", BigInteger, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("lane_filters_lane", lane_filters.c.lane, lane_filters.c.partition)

usage = Table(
    "usage",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("filtered", BigInteger, nullable=False),
)

versions_in_force = Table(
    "versions_in_force",
    metadata,
    Column("partition", Integer, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("offset", BigInteger, nullable=False),
)

replays = Table(
    "replays",
    metadata,
    Column("lane", big_key, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("reason", Text),
)

letter_actions = Table(
    "letter_actions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("discarded", BigInteger, nullable=False),
)

erasures = Table(
    "erasures",
    metadata,
    Column("request", BigInteger, primary_key=True, autoincrement=False),
    Column("asked_at", BigInteger, primary_key=True, autoincrement=False),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("retries", BigInteger, nullable=False),
    Column("dead_letters", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("done_at", BigInteger),
)

owned = Table(
    "owned",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("worker", Text, primary_key=True),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
)

index_runs = Table(
    "index_runs",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("first_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("run", LargeBinary, nullable=False),
)

erased_parts = Table(
    "erased_parts",
    metadata,
    Column("request", BigInteger, primary_key=True, autoincrement=False),
    Column("asked_at", BigInteger, primary_key=True, autoincrement=False),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("places", LargeBinary, nullable=False),
)

ring_entries = Table(
    "ring_entries",
    metadata,
    Column("folder", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("entries", LargeBinary, nullable=False),
)
