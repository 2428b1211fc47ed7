"""Every API call that may change something is put on the record, before its answer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from hookline.api.audit.log import AuditChange, audit_log
from hookline.api.caller import SAFE_METHODS, Caller
from hookline.api.calls import Call, current_call
from hookline.api.services import Services, connections_past
from hookline.connections.past import Change
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

FAILED = 400
OBJECTS_MAX = 500
"""Of a large file only the first objects are looked at: the log keeps no more of it anyway."""


class AuditTrail:
    """ASGI middleware of the API: what was refused, what only looked, and what nobody else sees, is left out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; when it succeeded, or failed after a change, write down who did what."""
        call = current_call()
        # Nobody unknown gets past the guard of a route that changes something.
        if scope["type"] != ScopeType.HTTP or call is None or call.caller is None or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        request, caller = scope, call.caller
        services: Services = scope["litestar_app"].state.services
        is_answered = False

        async def send_recorded(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                if _is_on_record(call, message["status"]):
                    _try_to_record(services, call, caller, request)
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except asyncio.CancelledError:  # by a stop, which does not take back what was done
            if call.has_changed and not is_answered:
                _try_to_record(services, call, caller, request)
            raise


def _is_on_record(call: Call, status: int) -> bool:
    return call.has_changed or (status < FAILED and not call.only_looked)


def _try_to_record(services: Services, call: Call, caller: Caller, scope: HTTPScope) -> None:
    """The change is made already, so its answer must say so, also when the log cannot be written."""
    try:
        _record(services, call, caller, scope)
    except OperationalError as error:
        path, method = scope["path"], scope["method"]
        logger().error(
            "audit_log_failed", actor=caller.author, method=method, path=path, request=call.id, reason=str(error)
        )


def _record(services: Services, call: Call, caller: Caller, scope: HTTPScope) -> None:
    changes = list(call.changes)
    for version in call.versions:
        changes += [
            each for change in connections_past(services).changes(version, OBJECTS_MAX) for each in _fields(change)
        ]
    objects = list(dict.fromkeys(change.object for change in changes))
    target = call.target or (objects[0] if len(objects) == 1 else _named(scope))
    action = scope["route_handler"].handler_name.rpartition(".")[2]
    newest = call.versions[-1] if call.versions else None
    audit_log(services).record(caller, action, target, call.address, call.id, changes, newest)


def _fields(change: Change) -> Iterator[AuditChange]:
    name = f"{change.kind}s/{change.id}"
    if change.action != "change" or change.note:
        yield AuditChange(name, "", None, change.note or change.action)
    for field in change.fields:
        yield AuditChange(name, field.path, field.before, field.after)


def _named(scope: HTTPScope) -> str:
    """Return the object that the address names, such as ``replays/r7``."""
    collection, _, _ = scope["path"].removeprefix("/api/v1/").partition("/")
    ids = list(scope["path_params"].values())
    return f"{collection}/{ids[0]}" if ids else collection
