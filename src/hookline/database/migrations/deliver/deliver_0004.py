"""The head of a receiver's answer to a failed attempt, and what finds the attempts of one destination by time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0004"
down_revision = "deliver_0003"


def upgrade() -> None:
    """Make the column and the indexes."""
    op.add_column("attempts", sa.Column("head", sa.Text(), nullable=True))
    op.create_index("attempts_destination", "attempts", ["destination", "at"])
    op.create_index("outcome_blocks_at", "outcome_blocks", ["at"])
