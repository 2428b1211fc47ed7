"""Saved views: a list with its filters under a name, for oneself or for everybody."""
