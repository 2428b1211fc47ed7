"""Reading the journal, one lane per destination, sending webhook requests, and what became of each."""
