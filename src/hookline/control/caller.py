"""Who makes a request: the holder of the admin token, a program with a token of its own, or a person."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hookline.control.people.roles import Need, Role, meets

ADMIN_TOKEN = "admin token"
NOBODY = "nobody"
"""What stands in the audit log where it is not known who it was."""


class Caller(NamedTuple):
    """Somebody known; ``session`` says that a browser's cookie says so, which other sites can make it send."""

    kind: Literal["admin_token", "token", "account"]
    name: str
    role: Role
    id: int | None = None
    session: bool = False

    @property
    def author(self) -> str:
        """What stands in the history of connections and in the audit log."""
        return f"token {self.name}" if self.kind == "token" else self.name

    @property
    def key(self) -> str:
        """What tells callers apart, also when they are called the same."""
        return f"{self.kind}:{self.id or ''}:{self.role}"

    def may(self, need: Need) -> bool:
        """Whether the caller may use what has this need."""
        return meets(self.role, need)
