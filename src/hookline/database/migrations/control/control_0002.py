"""Notices about the system itself, and when each source was last heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "control_0002"
down_revision = "control_0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "notices",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("next_step", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_at", sa.BigInteger(), nullable=True),
        sa.Column("unsent", sa.Text(), nullable=True),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("send_due", sa.BigInteger(), nullable=True),
        sa.Column("send_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "notices_open",
        "notices",
        ["kind", "subject"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_index(
        "notices_unsent",
        "notices",
        ["send_due"],
        unique=False,
        sqlite_where=sa.text("send_due IS NOT NULL"),
        postgresql_where=sa.text("send_due IS NOT NULL"),
    )
    op.create_table(
        "source_activity",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("last_event_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )
