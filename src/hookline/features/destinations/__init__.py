"""Destinations: health, metrics, pausing, secrets, the catalog, and the event tester."""
