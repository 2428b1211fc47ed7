"""Takes people's ids, and the messageIds of their events, out of what control itself keeps: replays and audit log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from hookline.database.connect import empty_log, overwrite_deleted
from hookline.database.shared import Shared
from hookline.replays.model import ReplayRequest
from hookline.replays.store import ReplayStore

ERASED = "erased"
"""What stands where an id was."""
REPLAYS = "replays/"
AFTER_REPLAYS = "replays0"
"""The smallest text behind all that begin with ``REPLAYS``."""

_request = msgspec.json.Decoder(ReplayRequest).decode


class Forgetting:
    """Works on ``control.db``; may be done twice."""

    def __init__(self, database: Shared, replays: ReplayStore) -> None:
        self._database = database
        self._replays = replays

    def forget(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        """Leave nothing of these in rows, free pages and the log; open replays that name them are cancelled."""
        self._database.read(overwrite_deleted)
        self._forget_replays(ids, message_ids)
        self._forget_audit({*ids, *message_ids})
        self._database.read(empty_log)

    def _forget_replays(self, ids: Collection[str], message_ids: Collection[str]) -> None:
        for lane, text, ended_at in self._database.rows("SELECT lane, request, ended_at FROM replays"):
            request = _request(text)
            named = request.message_ids or ()
            changed = msgspec.structs.replace(
                request,
                user_id=ERASED if request.user_id in ids else request.user_id,
                message_ids=tuple(ERASED if id in message_ids else id for id in named) or None,
            )
            if changed == request:
                continue
            if ended_at is None:
                self._replays.want(lane, "cancelled", request.rate)
            with self._database.transaction() as execute:
                execute("UPDATE replays SET request = ? WHERE lane = ?", (msgspec.json.encode(changed).decode(), lane))

    def _forget_audit(self, erased: Collection[str]) -> None:
        """Of the audit log only the entries of replays hold ids of people."""
        rows = self._database.rows(
            "SELECT id, changes FROM audit_log WHERE target >= ? AND target < ?", (REPLAYS, AFTER_REPLAYS)
        )
        for id, text in rows:
            changes = msgspec.json.decode(text)
            cleaned = _without(changes, erased)
            if cleaned != changes:
                with self._database.transaction() as execute:
                    execute(
                        "UPDATE audit_log SET changes = ? WHERE id = ?", (msgspec.json.encode(cleaned).decode(), id)
                    )


def _without(value: Any, erased: Collection[str]) -> Any:
    """Return the same JSON with these texts replaced wherever they stand as a value."""
    if isinstance(value, str):
        return ERASED if value in erased else value
    if isinstance(value, list):
        return [_without(each, erased) for each in value]
    if isinstance(value, dict):
        return {name: _without(each, erased) for name, each in value.items()}
    return value
