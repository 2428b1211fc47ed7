"""Connections as a file: ``check``, ``diff``, ``apply``, ``export`` and the versions of what is in force."""
