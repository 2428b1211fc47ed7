"""Who came to and went from which audience before what holds now, and by which sync what holds now came about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0005"
down_revision = "profiles_0004"


def upgrade() -> None:
    """Make the table and the column; of what holds already, the sync is not known."""
    op.add_column("members", sa.Column("since_sync", sa.Integer(), nullable=True))
    op.create_table(
        "membership_changes",
        sa.Column("definition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("sync", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("definition", "person", "at"),
        sqlite_with_rowid=False,
    )
