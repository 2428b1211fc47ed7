"""What the rings of many deliver processes know, for whoever takes a partition up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0010"
down_revision = "deliver_0009"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "ring_entries",
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("folder", "partition"),
    )
