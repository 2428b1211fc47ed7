"""Sources, destinations and what connects them: one definition serves file, API, database and routing."""
