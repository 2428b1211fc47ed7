"""From nothing to the first event: a source, the lines to paste, a receiver that verifies."""
