"""What sources send, and how many users they track."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "insights_0002"
down_revision = "insights_0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "schema_names",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.Column("examined", sa.BigInteger(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", "type", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracked_users",
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("registers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("month", "source"),
    )
    op.create_table(
        "schema_places",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition"),
    )
