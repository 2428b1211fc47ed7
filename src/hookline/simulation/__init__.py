"""The real delivery code on a simulated clock, network and disk: seeded runs for tests, outages for people."""
