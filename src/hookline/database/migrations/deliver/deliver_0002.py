"""Which filters decided about a lane's events, and how many events each source sent per day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0002"
down_revision = "deliver_0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "lane_filters",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("lane", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("lane_filters_lane", "lane_filters", ["lane", "partition"], unique=False)
    op.create_table(
        "usage",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("filtered", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "source"),
    )
