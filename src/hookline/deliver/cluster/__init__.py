"""Holds what exists only where deliver is many processes."""
