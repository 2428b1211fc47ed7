"""The first page: the way of the events, the connections, and how they do."""
