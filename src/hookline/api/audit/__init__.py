"""Record who changed what, when and from where: every request that changes something."""
