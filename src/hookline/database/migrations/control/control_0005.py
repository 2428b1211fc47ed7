"""What kind of actor an entry of the audit log is of, and counts of what strangers were refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "control_0005"
down_revision = "control_0004"


def upgrade() -> None:
    """Add the columns; of older entries neither is known."""
    for column in (
        sa.Column("actor_kind", sa.Text(), nullable=True),
        sa.Column("count", sa.BigInteger(), nullable=True),
        sa.Column("last_at", sa.BigInteger(), nullable=True),
    ):
        op.add_column("audit_log", column)
