"""The profiles role as a process."""
