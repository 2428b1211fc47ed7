"""Sources and destinations as objects, a whole file applied at once, and versions."""
