"""What there is to be allowed: roles of people, scopes of tokens, and what a route needs."""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["viewer", "editor", "owner"]
"""A viewer reads; an editor changes sources, destinations, filters, replays and dead letters; an owner also people,
tokens and settings, and reads the audit log."""
ROLES: tuple[Role, ...] = get_args(Role)

Scope = Literal["read", "write", "admin"]
"""What a token may do: as much as a viewer, an editor, an owner."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
ROLE_OF_SCOPE: dict[Scope, Role] = dict(zip(SCOPES, ROLES, strict=True))

Need = Literal["open", "signed_in", "viewer", "editor", "owner"]
"""What a route asks of its caller: nothing, to be known (what changes is the caller's own), or at least a role."""
NEEDS: tuple[Need, ...] = get_args(Need)


def meets(role: Role, need: Need) -> bool:
    """Return whether a caller of this role may use a route with this need."""
    return NEEDS.index(role) >= NEEDS.index(need)
