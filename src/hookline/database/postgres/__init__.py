"""The databases as schemas of one PostgreSQL database: the same statements, the same errors, one writer at a time."""
