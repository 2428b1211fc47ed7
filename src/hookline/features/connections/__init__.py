"""Sources, destinations and definitions as objects: through the API, from a file, and their versions."""
