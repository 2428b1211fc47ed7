"""Hookline between balancers and receivers as they are: ``python -m bench.edges`` plays each and prints one table."""
