"""Which destinations know what a definition tells, and those that are being told it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0007"
down_revision = "profiles_0006"


def upgrade() -> None:
    """Make the table and the column; what a definition is sent to when it is next followed, counts as told."""
    op.add_column("definitions", sa.Column("told", sa.Text(), nullable=True))
    op.create_table(
        "introductions",
        sa.Column("definition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("destinations", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("definition"),
    )
