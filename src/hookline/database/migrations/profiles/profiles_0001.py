"""The first tables of ``profiles.db``: persons, their identities, traits and groups, and the history of features."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "profiles_0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    _make_people()
    _make_groups()
    _make_history()


def _make_people() -> None:
    op.create_table(
        "persons",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("traits", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "merged",
        sa.Column("person", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("into_person", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("person"),
    )
    op.create_index("merged_into", "merged", ["into_person"])
    op.create_table(
        "identities",
        sa.Column("kind", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("identities_person", "identities", ["person"])
    op.create_table(
        "repointed",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", "place"),
        sqlite_with_rowid=False,
    )


def _make_groups() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("traits", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "memberships",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", "person"),
        sqlite_with_rowid=False,
    )
    op.create_index("memberships_person", "memberships", ["person"])


def _make_history() -> None:
    op.create_table(
        "features",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("features_what", "features", ["type", "name", "condition", "value"], unique=True)
    op.create_table(
        "backfills",
        sa.Column("feature", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("end_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("feature", "partition"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history",
        sa.Column("feature", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.Column("entry_values", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("feature", "chunk", "person"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chunks",
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("chunk"),
    )
    op.create_table(
        "places",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition"),
    )
