"""Deletion requests and suppressions: who asked, what was done, and the evidence."""
