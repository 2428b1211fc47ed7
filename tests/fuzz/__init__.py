"""Fuzzing: what any client may send and any receiver may answer, by the thousand; nothing of it may do harm."""
