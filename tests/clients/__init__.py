"""The clients against a real Hookline."""
