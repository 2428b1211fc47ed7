"""Issues: failures of one cause at one destination, as one thing to mend, ignore, or retry."""
