"""Previews, and which features are kept for them alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0004"
down_revision = "profiles_0003"


def upgrade() -> None:
    """Make the tables; what is kept until now is kept for definitions."""
    op.add_column("features", sa.Column("purpose", sa.Integer(), server_default="0", nullable=False))
    op.drop_index("features_what", "features")
    op.create_index("features_what", "features", ["type", "name", "condition", "value"])
    op.create_table(
        "previews",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("people", sa.BigInteger(), nullable=True),
        sa.Column("members", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "preview_sample",
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("preview", "person"),
        sqlite_with_rowid=False,
    )
