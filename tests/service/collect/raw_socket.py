"""One TCP connection on which a test writes whatever bytes it likes and reads the answers."""

from __future__ import annotations

import re
import socket
import time
from types import TracebackType

from tests.service.harness import Answer
from tests.service.waiting import WAIT_SECONDS

# What is put into bad input, to see that no answer repeats it.
MARKER = "MARKER-xyzzy-4711"
ANSWER_BYTES_MAX = 1_024


class RawSocket:
    """A connection to 127.0.0.1; reads are bounded by ``seconds``."""

    def __init__(self, port: int, seconds: float = WAIT_SECONDS) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._buffer = b""

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Send the bytes; a connection the service has closed meanwhile is no error here, reading tells."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def answer(self) -> Answer | None:
        """The next answer, interim ones (1xx) skipped; None when the connection ends without one."""
        while True:
            head = self._until(b"\r\n\r\n")
            if head is None:
                return None
            first, *lines = head.decode("latin-1").split("\r\n")
            status = int(first.split(" ")[1])
            if status >= 200:
                break
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        wanted = int(headers.get("content-length", "0"))
        while len(self._buffer) < wanted and self._receive():
            pass
        body, self._buffer = self._buffer[:wanted], self._buffer[wanted:]
        return Answer(status, headers, body)

    def closed(self, seconds: float = WAIT_SECONDS) -> bool:
        """Whether the service closes the connection within ``seconds`` without sending anything more."""
        self._socket.settimeout(seconds)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if not self._receive():
                    return not self._buffer
            except TimeoutError:
                return False
        return False

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._buffer:
            if not self._receive():
                return None
        head, _, self._buffer = self._buffer.partition(end)
        return head

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65_536)
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)


def assert_refused(answer: Answer | None, statuses: set[int], what: object = "") -> None:
    """Assert one of the statuses and the error body: JSON, small, complete, without an echo of the input."""
    assert answer is not None, f"no answer: {what}"
    assert answer.status in statuses, (what, answer)
    assert len(answer.body) <= ANSWER_BYTES_MAX
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json["success"] is False
    assert re.fullmatch(r"[a-z0-9_]+", answer.json["code"]), answer.json
    assert answer.json["message"]
    assert "error" in answer.json
    assert MARKER.encode() not in answer.body
    assert b"Traceback" not in answer.body
