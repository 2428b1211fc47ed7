"""The Go client library: its own tests, and a real Hookline that is killed under it."""
