"""Which roles a machine's service has. Standard library only: the supervisor imports this."""

from __future__ import annotations

import os

ROLES = ("collect", "deliver", "control")
ROLES_WITH_A_FILE = {"profiles": ("profiles.db", "profiles.wanted")}
"""Roles that are started once one of these files is in the data folder: who does not use them does not pay for them.
The first is the role's database, the second says that it is in PostgreSQL."""

SUPERVISOR_FD = "HOOKLINE_SUPERVISOR_FD"
"""The variable that a supervised role has: the number of the pipe's end that closes with the supervisor."""
LISTENING_FDS = "HOOKLINE_LISTENING_FDS"
"""The variable with the numbers of the sockets that a supervisor keeps for a role, separated by commas."""


def is_wanted(role: str, folder: str) -> bool:
    """Return whether a supervisor of this data folder runs the role."""
    return role in ROLES or any(os.path.exists(os.path.join(folder, file)) for file in ROLES_WITH_A_FILE[role])


def wanted(folder: str) -> tuple[str, ...]:
    """Return the roles that a supervisor of this data folder runs."""
    return (*ROLES, *(role for role in ROLES_WITH_A_FILE if is_wanted(role, folder)))
