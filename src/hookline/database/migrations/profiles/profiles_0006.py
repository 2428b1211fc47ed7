"""New traits of people in chunks, until they are folded into the persons' rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0006"
down_revision = "profiles_0005"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "new_traits",
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("traits", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chunk", "person"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "trait_chunks",
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("people", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("chunk"),
    )
