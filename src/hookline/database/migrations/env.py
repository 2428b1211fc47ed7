"""Alembic's entry: runs the migrations of one database on the connection that ``migrate.upgrade`` holds open."""

from __future__ import annotations

from alembic import context

from hookline.database import control_tables, deliver_tables, insights_tables, privacy_tables, profiles_tables

METADATA = {
    "control": control_tables.metadata,
    "deliver": deliver_tables.metadata,
    "insights": insights_tables.metadata,
    "profiles": profiles_tables.metadata,
    "privacy": privacy_tables.metadata,
}

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA[context.config.attributes["which"]],
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
