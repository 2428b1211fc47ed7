"""Say who makes a request, and what the roles of people and tokens may do."""

from __future__ import annotations

import re
import secrets
import string
import unicodedata
from typing import Literal, NamedTuple, get_args
from zlib import crc32

Role = Literal["viewer", "editor", "owner"]
"""A viewer reads; an editor changes connections, replays events and deletes people's data; an owner also manages
accounts and tokens, and reads the settings and the audit log."""
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


API = "/api/"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

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


ADMIN_TOKEN = "admin token"
HOOKLINE = "hookline"
"""The author of what no request asked for."""
NOBODY = "nobody"
"""What stands in the audit log where it is not known who it was."""

Kind = Literal["admin_token", "token", "account"]

TOKEN = "token"
ACCOUNT = "account"
RESERVED = frozenset({ADMIN_TOKEN, NOBODY, HOOKLINE, TOKEN, ACCOUNT})
RESERVED_STARTS = (f"{TOKEN} ", f"{ACCOUNT} ")

_SPACE = re.compile(r"\s+")
_JOINED = str.maketrans("_-", "  ")


def is_reserved(name: str) -> bool:
    """Return whether a person of this name would look like something else in the history and the audit log."""
    seen = looks(name)
    return looks(seen.translate(_JOINED)) in RESERVED or seen.startswith(RESERVED_STARTS)


def looks(name: str) -> str:
    """Return what a name looks like to a reader: without case, width and other forms of letters, kinds of space."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())).strip()


class Caller(NamedTuple):
    """Somebody known; ``session`` says that a browser's cookie says so, which other sites can make it send."""

    kind: Kind
    name: str
    role: Role
    id: int | None = None
    session: bool = False

    @property
    def author(self) -> str:
        """Return what stands in the history of connections and in the audit log."""
        if self.kind == "token":
            return f"{TOKEN} {self.name}"
        # An account that was called so before that was refused.
        return f"{ACCOUNT} {self.name}" if self.kind == "account" and is_reserved(self.name) else self.name

    @property
    def key(self) -> str:
        """Return what tells callers apart, also when they are called the same."""
        return f"{self.kind}:{self.id or ''}:{self.role}"

    def may(self, need: Need) -> bool:
        """Return whether the caller may use what has this need."""
        return meets(self.role, need)
