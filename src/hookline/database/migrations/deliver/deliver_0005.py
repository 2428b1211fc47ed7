"""Since when the results of a block are, so that those of a time are found; unknown for older blocks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0005"
down_revision = "deliver_0004"


def upgrade() -> None:
    """Make the column, and put it into the index."""
    op.add_column("outcome_blocks", sa.Column("first_at", sa.BigInteger(), nullable=True))
    op.drop_index("outcome_blocks_at", "outcome_blocks")
    op.create_index("outcome_blocks_at", "outcome_blocks", ["at", "first_at"])
