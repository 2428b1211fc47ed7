"""Follows the journal and extracts what it says of people."""
