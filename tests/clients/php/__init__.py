"""The PHP client library: its own tests, and what it promises to a real service that is killed and started."""
