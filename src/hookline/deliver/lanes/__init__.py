"""Keeps the lanes: what waits for each destination, how it is, and where it stands."""
