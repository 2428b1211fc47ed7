"""Faults of many machines: brokers, workers, the network and the database damaged under load, and a ledger balanced."""
