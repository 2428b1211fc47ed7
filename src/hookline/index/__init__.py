"""Which offsets hold a messageId: duplicates while delivering, look-ups for ``why``, a user's events for erasure."""
