"""One line of the audit log, as the API shows it."""

from __future__ import annotations

from typing import Any

import msgspec


class AuditChange(msgspec.Struct, frozen=True):
    """One field of one object before and after; null where there was or is none. Secrets are masked."""

    object: str
    path: str
    before: Any = None
    after: Any = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who did what to what. ``version`` is that of the connections which it made, if it made one."""

    id: int
    at: str
    actor: str
    action: str
    target: str
    version: int | None
    changes: tuple[AuditChange, ...]
    address: str
    request_id: str
