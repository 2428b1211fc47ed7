"""Series over time: what the charts and ``hookline metrics`` show."""
