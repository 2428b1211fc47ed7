"""Replays: stored events sent again on a lane of their own, that has an end."""
