"""Sources: what came from them, the schema of it, and what was rejected."""
