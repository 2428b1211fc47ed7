"""Seeded worlds: the real delivery code lives through faults on a simulated machine, and the books are checked."""
