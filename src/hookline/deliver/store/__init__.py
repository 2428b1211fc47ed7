"""Keeps what deliver must remember."""
