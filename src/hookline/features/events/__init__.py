"""Events on their way: newest first, live, and the status of each with its attempts."""
