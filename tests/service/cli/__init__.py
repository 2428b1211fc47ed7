"""The commands against a running service."""
