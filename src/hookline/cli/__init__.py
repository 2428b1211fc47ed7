"""The command line: the server commands, the tools around a running server, and what they share."""
