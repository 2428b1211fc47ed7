"""Releases: what is published, what it may hold, its trial in a clean environment, and what must be fresh before."""
