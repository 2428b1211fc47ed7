"""Destinations: health, metrics, pausing, secrets, and the event tester."""
