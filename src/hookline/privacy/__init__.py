"""Deletion requests, suppression and erasure: how a person's data goes, and what shows that it has gone."""
