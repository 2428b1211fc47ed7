"""Runs that take hours, made piece by piece: what each is, the ledger of what was made, and the pages of both."""
