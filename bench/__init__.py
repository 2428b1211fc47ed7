"""Rigs outside the package: they need a checkout, the tests, or programs of others. ``hookline bench`` is in it."""
