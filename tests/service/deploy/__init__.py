"""What is in deploy/ and docs/how-to/run-in-production.md, with the service running."""
