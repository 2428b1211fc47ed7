"""Suppression, deletion requests and their evidence."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "privacy_0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    _suppression()
    _requests()
    _messages()


def _suppression() -> None:
    op.create_table(
        "suppressions",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("request", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
        sqlite_with_rowid=False,
    )
    op.create_index("suppressions_at", "suppressions", ["at", "digest"], unique=False)
    op.create_table(
        "privacy_changes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "suppressed_usage",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "source"),
    )
    op.create_table(
        "suppressed_seen",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )


def _requests() -> None:
    big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "deletion_requests",
        sa.Column("id", big_key, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("places", sa.LargeBinary(), nullable=True),
        sa.Column("erased", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("deletion_requests_state", "deletion_requests", ["state"], unique=False)
    op.create_table(
        "deletion_people",
        sa.Column("request", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("identities", sa.Text(), nullable=True),
        sa.Column("identity_count", sa.Integer(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request", "number"),
    )
    op.create_index("deletion_people_digest", "deletion_people", ["digest"], unique=False)


def _messages() -> None:
    big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "deletion_messages",
        sa.Column("id", big_key, nullable=False),
        sa.Column("request", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("destinations", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deletion_messages_request", "deletion_messages", ["request", "number"], unique=False)
    op.create_index("deletion_messages_due", "deletion_messages", ["state", "due"], unique=False)
    op.create_table(
        "deletion_receipts",
        sa.Column("message", sa.BigInteger(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("fate", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message", "destination"),
    )
