"""The ways events leave the process, one module each."""
