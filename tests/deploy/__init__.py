"""What is in deploy/, as far as it can be held against the service without an engine that runs it."""
