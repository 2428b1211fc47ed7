"""The tables of ``control.db``: configured objects with their whole history, notices, replays, who may do what and who
did. Written by control only.

An object's row is valid for the versions ``[since, until)``; the row in force has no ``until``. So a change costs one
row per changed object, and what was in force at any version can be read back. Times are milliseconds since the epoch.
Read by migrations and their tests; the roles write plain SQL and never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, text

metadata = MetaData()

# SQLite makes a key the row id only if its type is spelled INTEGER.
big_key = BigInteger().with_variant(Integer, "sqlite")

versions = Table(
    "versions",
    metadata,
    Column("version", big_key, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("ends", Text, nullable=False),
)

objects = Table(
    "objects",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("since", BigInteger, primary_key=True),
    Column("until", BigInteger),
    Column("document", Text, nullable=False),
    Column("owner", Text),
    Column("lane", Text),
)
Index(
    "objects_in_force",
    objects.c.kind,
    objects.c.id,
    unique=True,
    sqlite_where=text("until IS NULL"),
    postgresql_where=text("until IS NULL"),
)
Index("objects_since", objects.c.since)
Index(
    "objects_until",
    objects.c.until,
    sqlite_where=text("until IS NOT NULL"),
    postgresql_where=text("until IS NOT NULL"),
)

lane_numbers = Table(
    "lane_numbers",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("next", BigInteger, nullable=False),
)

control_ready = Table(
    "control_ready",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("boot_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

notices = Table(
    "notices",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("next_step", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("resolved_at", BigInteger),
    Column("acknowledged_at", BigInteger),
    Column("unsent", Text),
    Column("sends", Integer, nullable=False),
    Column("send_due", BigInteger),
    Column("send_error", Text),
    sqlite_autoincrement=True,
)
Index(
    "notices_open",
    notices.c.kind,
    notices.c.subject,
    unique=True,
    sqlite_where=text("resolved_at IS NULL"),
    postgresql_where=text("resolved_at IS NULL"),
)
Index(
    "notices_unsent",
    notices.c.send_due,
    sqlite_where=text("send_due IS NOT NULL"),
    postgresql_where=text("send_due IS NOT NULL"),
)

source_activity = Table(
    "source_activity",
    metadata,
    Column("source", Text, primary_key=True),
    Column("last_event_at", BigInteger, nullable=False),
)

replays = Table(
    "replays",
    metadata,
    Column("lane", big_key, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("request", Text, nullable=False),
    Column("starts", Text, nullable=False),
    Column("ends", Text, nullable=False),
    Column("places", LargeBinary),
    Column("state", Text, nullable=False),
    Column("rate", Float),
    Column("total", BigInteger),
    Column("paused_at", BigInteger),
    Column("ended_at", BigInteger),
)

replay_changes = Table(
    "replay_changes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("next", BigInteger, nullable=False),
)

letter_actions = Table(
    "letter_actions",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("letters", Text, nullable=False),
    sqlite_autoincrement=True,
)

accounts = Table(
    "accounts",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("password_hash", Text),
    Column("invite_digest", LargeBinary),
    Column("invite_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger),
    Column("disabled_at", BigInteger),
    # ids are in the audit log and in links, so the id of a row that left is never given again
    sqlite_autoincrement=True,
)
Index("accounts_name", accounts.c.name_key, unique=True)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("account", BigInteger),
    Column("admin_token", LargeBinary),
    Column("opened_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
)
Index("sessions_account", sessions.c.account)

tokens = Table(
    "tokens",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("hint", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    sqlite_autoincrement=True,
)
Index("tokens_name", tokens.c.name, unique=True)
Index("tokens_digest", tokens.c.digest, unique=True)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", big_key, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("version", BigInteger),
    Column("changes", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("actor_kind", Text),
    Column("count", BigInteger),
    Column("last_at", BigInteger),
    sqlite_autoincrement=True,
)
Index("audit_log_actor", audit_log.c.actor, audit_log.c.id)
Index("audit_log_action", audit_log.c.action, audit_log.c.id)
Index("audit_log_target", audit_log.c.target, audit_log.c.id)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("answer", LargeBinary),
)
Index("idempotency_keys_at", idempotency_keys.c.at)
