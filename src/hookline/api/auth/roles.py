"""What roles of people and tokens may do, and how a token is written."""

from __future__ import annotations

import re
import secrets
import string
from typing import Literal, get_args
from zlib import crc32

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


PREFIX = "hkt_"
RANDOM_CHARACTERS = 30
CHECKSUM_CHARACTERS = 6

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_FORM = re.compile(r"hkt_(?:read|write|admin)_[0-9A-Za-z]{36}", re.ASCII)


def new_token(scope: Scope) -> str:
    """Return a new token: 178 random bits."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(RANDOM_CHARACTERS))
    start = f"{PREFIX}{scope}_{random}"
    return start + _checksum(start)


def is_token(text: str) -> bool:
    """Return whether the text can be a token."""
    return _FORM.fullmatch(text) is not None and _checksum(text[:-CHECKSUM_CHARACTERS]) == text[-CHECKSUM_CHARACTERS:]


def _checksum(text: str) -> str:
    rest, found = crc32(text.encode()), ""
    for _ in range(CHECKSUM_CHARACTERS):
        rest, digit = divmod(rest, len(_ALPHABET))
        found = _ALPHABET[digit] + found
    return found
