"""What an event is on the wire: timestamps, fingerprints, canonical JSON, webhook bodies and their signature."""
