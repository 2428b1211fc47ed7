"""Sends requests to receivers: the port, and HTTP behind it."""
