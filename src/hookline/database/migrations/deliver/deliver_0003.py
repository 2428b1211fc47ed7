"""What replays have come to, the event's name in a dead letter, and how far discards are carried out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0003"
down_revision = "deliver_0002"


def upgrade() -> None:
    """Make the tables and the column, and let go of results whose entries had another length."""
    op.execute("DELETE FROM outcome_blocks")
    op.add_column("dead_letters", sa.Column("event", sa.Text(), nullable=True))
    op.create_table(
        "replays",
        sa.Column("lane", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("lane"),
    )
    op.create_table(
        "letter_actions",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("discarded", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
