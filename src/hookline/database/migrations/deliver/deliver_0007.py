"""Where partitions go from worker to worker: who owns which, sealed runs of the index, and what was erased."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0007"
down_revision = "deliver_0006"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "owned",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition"),
    )
    op.create_table(
        "index_runs",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("run", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("partition", "first_offset"),
    )
    op.create_table(
        "erased_parts",
        sa.Column("request", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.Column("places", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request", "asked_at", "round", "partition"),
    )
