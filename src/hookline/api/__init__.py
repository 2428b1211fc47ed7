"""The admin API as a server: its gates, calls, errors and description; what it serves is in the features."""
