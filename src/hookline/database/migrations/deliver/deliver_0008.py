"""Which deliver processes there are, and what each holds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0008"
down_revision = "deliver_0007"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "workers",
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("worker"),
    )
