"""Who changed what, when and from where: every request that changes something is on the record."""
