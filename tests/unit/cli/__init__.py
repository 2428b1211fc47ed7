"""The command line: what can be told without a running service."""
