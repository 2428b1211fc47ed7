"""Rigs outside the package: they need the tests, and programs of others."""
