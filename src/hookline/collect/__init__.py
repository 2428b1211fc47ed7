"""The public collection edge: HTTP in, checked events out to the journal; it knows nothing of delivery."""
