"""The Python library against a real Hookline."""
