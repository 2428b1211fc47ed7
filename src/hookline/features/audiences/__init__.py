"""Audiences and computed traits: members, values, previews, syncs, and why somebody is in one."""
