"""``Idempotency-Key``: a POST that is sent again is done once."""
