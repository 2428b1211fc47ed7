"""From a call to the queue of a consumer, and what all kinds of clients share: options, ledger, forks, the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from hookline_client import lifecycle
from hookline_client.consumers.registry import make_consumer
from hookline_client.encoding import encode
from hookline_client.errors import CODES, InvalidCall, InvalidOption, NotQueued
from hookline_client.ledger import Ledger
from hookline_client.log import logger, turn_on_when_asked
from hookline_client.messages import LIBRARY, MESSAGE_BYTES_MAX, build, from_mapping, view
from hookline_client.options import Options
from hookline_client.receipts import FlushResult, Message

ABANDONED_SECONDS = 60.0
"""How long events of a client that nobody holds any more are still tried."""


class Session:
    """One client's way out. The process knows it until it is closed, also when nobody else does."""

    def __init__(self, options: Options, logs: bool = False) -> None:
        self.options = options
        self.ledger = Ledger(options.error_handler, options.on_success, options.receipts)
        logger()  # imported here: a thread that sends must not, as the process may fork in the middle of it
        self._logs = turn_on_when_asked(options.debug or logs)
        self._enabled = options.enabled and _has_key(options)
        self._context = {"library": LIBRARY, **(options.default_context or {})}
        self._integrations = options.default_integrations
        inner = self._context.pop("integrations", None)  # as in a call's own context
        if isinstance(inner, Mapping):
            self._integrations = {**inner, **(options.default_integrations or {})}
        self.consumer = make_consumer(options, self.ledger)
        self._armed = False
        self._closed = False
        lifecycle.register(self)

    def call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        """Check and queue a call; return its messageId, None when it was not queued. Raises only when ``strict``."""
        try:
            if given:
                fields = _joined(given, fields)
            message = build(kind, fields, self._context, self._integrations)
            if self.options.before_send is not None:
                filtered = self._filtered(message)
                if filtered is None:
                    return None
                message = filtered
            body = encode(message, self.options.strict)
            if len(body) > MESSAGE_BYTES_MAX:
                raise InvalidCall("event_too_large", CODES["event_too_large"])
            return self._queue(kind, (message["messageId"], body))
        except (InvalidCall, NotQueued) as error:
            if self.options.strict:
                raise
            self.ledger.invalid(error.code, error.message)
        except Exception as error:
            # Values with methods of their own can raise anything; a call in production never does.
            if self.options.strict:
                raise
            self.ledger.invalid("internal_error", f"{CODES['internal_error']} ({_shown(error)})")
        return None

    def flush(self, timeout: float | None) -> FlushResult:
        """Return when every event queued before has an outcome, or after ``timeout`` seconds."""
        return self.ledger.take(self.waiting(timeout))

    def close(self, timeout: float | None) -> FlushResult:
        """Flush within ``timeout`` seconds (``exit_timeout`` when None) and end; what is left is lost and counted."""
        self.end(timeout)
        return self.ledger.take(self.waiting())

    def waiting(self, timeout: float | None = 0.0) -> int:
        """Return how many events have no outcome yet, after so many seconds; after the end those that stay in a spool,
        or are in a hung request."""
        return self.consumer.flush(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def end(self, timeout: float | None) -> None:
        """Close, and leave what happened to the next who asks."""
        self._closed = True
        try:
            seconds = self.options.exit_timeout if timeout is None else timeout
            self.consumer.close(min(seconds, threading.TIMEOUT_MAX))  # locks take no infinity
        finally:
            lifecycle.unregister(self)

    def abandon(self) -> None:
        """Nobody can call any more: send what waits, without making anybody wait, and end."""
        if not self._closed and not lifecycle.ended():
            try:
                threading.Thread(target=self.end, args=(ABANDONED_SECONDS,), daemon=True).start()
            except RuntimeError:  # the interpreter is ending, which closes this session too
                pass

    def before_fork(self) -> None:
        """The process is about to be copied."""
        self.consumer.before_fork()

    def after_fork_in_parent(self) -> None:
        """It was; this is the original."""
        self.consumer.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """It was; this is the copy."""
        self.ledger.forked()
        self.consumer.after_fork_in_child()
        self._armed = False

    def end_of_process(self, gone_seconds: float) -> None:
        """Send what waits, within the exit timeout, of which so much is gone."""
        self._closed = True
        self.consumer.close(max(0.0, self.options.exit_timeout - gone_seconds))

    def _queue(self, kind: str, message: Message) -> str | None:
        if not self._enabled:
            return None
        if not self._armed:
            self._armed = True
            lifecycle.arm_child()
        if self._logs:
            logger().debug("%s %s", kind, message[1].decode())
        if self.consumer.enqueue(message):
            return message[0]
        if self.options.strict:
            raise NotQueued("not_queued", CODES["not_queued"])
        return None

    def _filtered(self, message: dict[str, Any]) -> dict[str, Any] | None:
        # The hook gets a copy, as it will be sent: what it changes is neither the caller's nor every call's.
        hook = self.options.before_send
        assert hook is not None
        copy: dict[str, Any] = json.loads(encode(message, self.options.strict))
        named = {name: copy[name] for name in ("type", "messageId", "timestamp")}
        try:
            filtered = hook(copy)
            if filtered is None:
                return None
            filtered = {**named, **filtered}
            if not isinstance(filtered["messageId"], str) or not filtered["messageId"]:
                filtered["messageId"] = named["messageId"]
            return filtered
        except Exception as error:
            if self.options.strict:
                raise
            reason = f"{CODES['before_send_failed']} ({_shown(error)})"
            if self.options.before_send_failure == "pass":
                self.ledger.report("before_send_failed", reason)
                return message
            self.ledger.dropped(((message["messageId"], b""),), "before_send_failed", reason)
            return None


def _joined(given: tuple[object, ...], fields: dict[str, Any]) -> dict[str, Any]:
    named = {name: value for name, value in fields.items() if value is not None}
    if isinstance(given[0], Mapping):
        return {**from_mapping(given[0]), **named}
    return {**named, **view(given, named)}


def _shown(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - it is the application's, as are the values that it may hold
        return type(error).__name__


def _has_key(options: Options) -> bool:
    if options.write_key or options.transport is not None:
        return True
    if options.strict and options.enabled:
        raise InvalidOption("missing_write_key", CODES["missing_write_key"])
    if options.enabled:
        logger().warning("%s", CODES["missing_write_key"])
    return False
