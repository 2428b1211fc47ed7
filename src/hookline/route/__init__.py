"""Which destinations an event goes to, and why not to the others."""
