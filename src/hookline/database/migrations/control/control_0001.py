"""The first tables of ``control.db``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "control_0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "control_ready",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "lane_numbers",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "objects",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "id", "since"),
    )
    op.create_index(
        "objects_in_force",
        "objects",
        ["kind", "id"],
        unique=True,
        sqlite_where=sa.text("until IS NULL"),
        postgresql_where=sa.text("until IS NULL"),
    )
    op.create_index("objects_since", "objects", ["since"], unique=False)
    op.create_index(
        "objects_until",
        "objects",
        ["until"],
        unique=False,
        sqlite_where=sa.text("until IS NOT NULL"),
        postgresql_where=sa.text("until IS NOT NULL"),
    )
    op.create_table(
        "versions",
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("ends", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )
