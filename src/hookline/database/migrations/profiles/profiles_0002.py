"""Who is a member of what, what was told to destinations, and who has to be looked at again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0002"
down_revision = "profiles_0001"


def upgrade() -> None:
    """Make the tables."""
    _make_definitions()
    _make_members()
    op.create_table(
        "touched",
        sa.Column("batch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("batch", "person"),
        sqlite_with_rowid=False,
    )


def _make_definitions() -> None:
    op.create_table(
        "definitions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("judged", sa.Text(), nullable=False),
        sa.Column("evaluated", sa.BigInteger(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("sending_at", sa.BigInteger(), nullable=True),
        sa.Column("sending_batch", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("definitions_what", "definitions", ["kind", "name"], unique=True)
    op.create_table(
        "syncs",
        sa.Column("definition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False),
        sa.Column("came", sa.BigInteger(), nullable=False),
        sa.Column("went", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("definition", "number"),
        sqlite_with_rowid=False,
    )


def _make_members() -> None:
    op.create_table(
        "members",
        sa.Column("definition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.Text(), nullable=True),
        sa.Column("sync", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("definition", "person"),
        sqlite_with_rowid=False,
    )
    where = "IS NOT NULL"
    op.create_index("members_due", "members", ["definition", "until"], sqlite_where=sa.text(f"until {where}"))
    op.create_index("members_sync", "members", ["definition", "sync"], sqlite_where=sa.text(f"sync {where}"))
