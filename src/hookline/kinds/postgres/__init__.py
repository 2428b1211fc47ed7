"""The kind postgres: a warehouse in PostgreSQL, one schema for each source and one table for each event name."""
