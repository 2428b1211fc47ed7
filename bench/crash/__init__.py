"""The crash report: everything killed, disks full and failing, power cut, and the ledger balanced each time."""
