"""The durable, ordered, partitioned log of accepted events: a port and its backends."""
