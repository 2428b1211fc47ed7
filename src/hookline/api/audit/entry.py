"""One line of the audit log, as the API shows it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ActorKind = Literal["account", "token", "admin_token", "nobody"]


class AuditChange(msgspec.Struct, frozen=True):
    """One field of one object before and after; null where there was or is none. Secrets are masked."""

    object: str
    path: str
    before: Any = None
    after: Any = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who did what to what. ``version`` is that of the connections which it made, if it made one.

    ``actorKind`` is null in entries from before it was kept. What nobody known tried is counted: ``count`` times from
    ``at`` to ``lastAt``, by the hour.
    """

    id: int
    at: str
    actor: str
    actor_kind: ActorKind | None = None
    action: str
    target: str
    version: int | None
    changes: tuple[AuditChange, ...]
    address: str
    request_id: str
    count: int | None = None
    last_at: str | None = None
