"""Audiences and computed traits as people write them, and what makes one right or wrong."""
