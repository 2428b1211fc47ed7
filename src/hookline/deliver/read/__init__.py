"""Reads the journal into the lanes."""
