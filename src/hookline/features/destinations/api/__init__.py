"""What is asked of destinations and done to them."""
