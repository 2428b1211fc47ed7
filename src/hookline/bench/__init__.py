"""The benchmark: load generator, receiver, scenarios and their report."""
