"""The whole service with its databases in PostgreSQL."""
