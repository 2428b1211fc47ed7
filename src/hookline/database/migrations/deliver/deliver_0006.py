"""What was erased of people whose data was to go, and which of those erasures are done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0006"
down_revision = "deliver_0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "erasures",
        sa.Column("request", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("retries", sa.BigInteger(), nullable=False),
        sa.Column("dead_letters", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("request", "asked_at", "round"),
    )
