"""The first tables of ``insights.db``: time series."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "insights_0001"
down_revision = None

BUCKETS = 13


def upgrade() -> None:
    """Make the tables."""
    response = [f"response_{index}" for index in range(BUCKETS)]
    latency = [f"latency_{index}" for index in range(BUCKETS)]
    totals = ["accepted", "rejected", "delivered", "failures", "retries", "given_up", "waiting", "lag"]
    destination = ["delivered", "attempted", "failures", "retries", "given_up", "filtered", "waiting"]
    _make("total_series", [], [*totals, *response, *latency])
    _make("destination_series", ["destination"], [*destination, *response])
    _make("source_series", ["source"], ["events", "filtered"])
    op.create_table(
        "series_place",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_slot", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _make(name: str, of: list[str], counts: list[str]) -> None:
    op.create_table(
        name,
        sa.Column("resolution", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(each, sa.Text(), nullable=False) for each in of),
        *(sa.Column(each, sa.BigInteger(), nullable=True) for each in counts),
        sa.PrimaryKeyConstraint("resolution", "at", *of),
        sqlite_with_rowid=False,
    )
