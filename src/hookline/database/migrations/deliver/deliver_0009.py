"""When a dead letter's event was tried first, by the service's own clock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "deliver_0009"
down_revision = "deliver_0008"


def upgrade() -> None:
    """Add the column; of older rows their attempts tell, by the wall clock."""
    op.add_column("dead_letters", sa.Column("first_at", sa.BigInteger(), nullable=True))
