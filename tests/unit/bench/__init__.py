"""The benchmark: its load generator, receiver and ledgers against each other."""
