"""Making a source's write key."""

from __future__ import annotations

import secrets

PREFIX = "wk_"
_RANDOM_BYTES = 18


def new_write_key() -> str:
    """Return a key nobody can guess (144 bits), recognisable by its prefix."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
