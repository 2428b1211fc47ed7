"""Who was taken out because their data was to go, and which of those erasures are done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0003"
down_revision = "profiles_0002"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "erasures",
        sa.Column("request", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("people", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("request", "asked_at", "round"),
    )
