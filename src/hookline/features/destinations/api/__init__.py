"""Answer calls about destinations, and act on them."""
