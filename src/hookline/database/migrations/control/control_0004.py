"""People, their sessions, API tokens, the audit log, and answers kept for repeated requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "control_0004"
down_revision = "control_0003"


def upgrade() -> None:
    """Make the tables."""
    big_key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "accounts",
        sa.Column("id", big_key, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("invite_digest", sa.LargeBinary(), nullable=True),
        sa.Column("invite_until", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=True),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("accounts_name", "accounts", ["name_key"], unique=True)
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("account", sa.BigInteger(), nullable=True),
        sa.Column("admin_token", sa.LargeBinary(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("sessions_account", "sessions", ["account"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", big_key, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("tokens_name", "tokens", ["name"], unique=True)
    op.create_index("tokens_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "audit_log",
        sa.Column("id", big_key, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_log_actor", "audit_log", ["actor", "id"], unique=False)
    op.create_index("audit_log_action", "audit_log", ["action", "id"], unique=False)
    op.create_index("audit_log_target", "audit_log", ["target", "id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("idempotency_keys_at", "idempotency_keys", ["at"], unique=False)
