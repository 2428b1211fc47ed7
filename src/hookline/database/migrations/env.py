"""Alembic's entry: runs the migrations of one database on the connection that ``migrate.upgrade`` holds open, or writes
down what they would tell PostgreSQL."""

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

_attributes = context.config.attributes
if _attributes["written_to"] is None:
    context.configure(
        connection=_attributes["connection"],
        target_metadata=METADATA[_attributes["which"]],
        render_as_batch=True,
        transactional_ddl=True,
    )
else:
    context.configure(
        dialect_name="postgresql", output_buffer=_attributes["written_to"], literal_binds=True, transactional_ddl=False
    )
with context.begin_transaction():
    context.run_migrations()
