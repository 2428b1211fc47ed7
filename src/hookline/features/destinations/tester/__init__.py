"""The event tester: the exact requests for one event, and what comes of sending them."""
