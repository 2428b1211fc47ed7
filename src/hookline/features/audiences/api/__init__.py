"""Audiences and computed traits: the objects, members and values, previews, syncs."""
