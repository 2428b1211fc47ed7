"""What operators look at: log lines, metric names, crash points."""
