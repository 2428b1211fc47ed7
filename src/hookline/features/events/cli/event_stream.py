"""The admin API's event stream as a client follows it: connects, connects again where it was, and says so."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hookline.cli.admin_api import AdminApi, NoAnswer

PATH = "/events/stream"
SILENCE_SECONDS_MAX = 30.0
"""The server says that it is still there every 10 s."""
PAUSE_SECONDS_FIRST = 0.5
PAUSE_SECONDS_MAX = 10.0
LINE_BYTES_MAX = 64 * 1024 * 1024


class StreamMessage(NamedTuple):
    """One message: ``event``, ``status`` or ``skipped``, and its data."""

    kind: str
    data: Any


class EventStream:
    """Messages from now on, for as long as they are asked for."""

    def __init__(
        self, admin: AdminApi, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._admin = admin
        self._say = say
        self._sleep = sleep
        self._position: dict[str, str] = {}
        self._answer = self._connect()

    def messages(self) -> Iterator[StreamMessage]:
        """Every message, across lost connections; raise CommandFailed when the server no longer wants us."""
        while True:
            try:
                yield from self._read()
                reason = "the server ended it"
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            self._say(f"connection to Hookline lost ({reason}); connecting again")
            self._connect_again()
            self._say("connected again")

    def close(self) -> None:
        """Leave; idempotent."""
        self._answer.close()

    def _connect(self) -> http.client.HTTPResponse:
        headers = {"Accept": "text/event-stream"}
        if self._position:
            headers["Last-Event-ID"] = ",".join(f"{part}:{offset}" for part, offset in self._position.items())
        return self._admin.open(PATH, headers, SILENCE_SECONDS_MAX)

    def _connect_again(self) -> None:
        pause = PAUSE_SECONDS_FIRST
        self._answer.close()
        while True:
            self._sleep(pause)
            try:
                self._answer = self._connect()
                return
            except NoAnswer:  # not running, or not ready: any other failure is for the caller
                pause = min(PAUSE_SECONDS_MAX, pause * 2)

    def _read(self) -> Iterator[StreamMessage]:
        kind = message_id = data = ""
        while line := self._answer.readline(LINE_BYTES_MAX):
            name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                message_id = value
            elif name == "data":
                data = value
            elif not name:
                if data:
                    yield StreamMessage(kind, json.loads(data))
                # Only now: a message that was cut off is asked for again.
                for place in filter(None, message_id.split(",")):
                    partition, _, offset = place.partition(":")
                    self._position[partition] = offset
                kind = message_id = data = ""
