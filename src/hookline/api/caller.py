"""Who makes a request: the holder of the admin token, a program with a token of its own, or a person."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

from hookline.api.auth.roles import Need, Role, meets

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
