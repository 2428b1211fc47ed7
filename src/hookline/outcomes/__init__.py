"""What became of each event: attempts, results in blocks, and the one reachable status."""
