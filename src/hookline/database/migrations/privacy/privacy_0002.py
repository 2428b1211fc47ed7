"""The key of the hashes, where the database is PostgreSQL and machines share it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "privacy_0002"
down_revision = "privacy_0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "privacy_key",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
