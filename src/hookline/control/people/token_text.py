"""What a token looks like: ``hkt_write_`` and 36 characters, the last six of them a checksum.

The prefix and the checksum let secret scanners find one in a text with certainty, and let a wrong one be refused
without a look at the database.
"""

from __future__ import annotations

import re
import secrets
import string
from zlib import crc32

from hookline.control.people.roles import Scope

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
