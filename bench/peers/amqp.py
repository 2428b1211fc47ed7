"""As much of AMQP 0-9-1 as it takes to publish persistent messages with confirms: Outpost's fastest way in."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

METHOD, HEADER, BODY, END = 1, 2, 3, b"\xce"
AHEAD_MAX = 2_000
"""Messages that wait for their confirm; enough that the broker never waits for the publisher."""
WAIT_SECONDS = 30.0

_CHANNEL = 1
_ACK, _NACK = (60, 80), (60, 120)


class Publisher:
    """A connection with one channel in confirm mode, logged in as the broker's first user."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(10, 10)
        login = b"\0guest\0guest"
        start = struct.pack(">I", 0) + _short(b"PLAIN") + struct.pack(">I", len(login)) + login + _short(b"en_US")
        self._method(0, 10, 11, start)
        tuned = self._expect(10, 30)
        self._method(0, 10, 31, tuned[:6] + b"\0\0")  # no heartbeats
        self._method(0, 10, 40, _short(b"/") + b"\0\0")
        self._expect(10, 41)
        self._method(_CHANNEL, 20, 10, b"\0")
        self._expect(20, 11)

    def declare(self, queue: str) -> None:
        """Make a durable queue, unless it is there."""
        self._method(_CHANNEL, 50, 10, b"\0\0" + _short(queue.encode()) + b"\x02" + struct.pack(">I", 0))
        self._expect(50, 11)

    def publish(self, queue: str, messages: Iterable[bytes]) -> int:
        """Publish to a queue and return how many the broker has confirmed to be stored, which are all."""
        self._method(_CHANNEL, 85, 10, b"\0")
        self._expect(85, 11)
        target = _method(60, 40, b"\0\0" + _short(b"") + _short(queue.encode()) + b"\0")
        head = _frame(METHOD, _CHANNEL, target)
        sent = confirmed = 0
        waiting: list[bytes] = []
        for message in messages:
            # Content type and delivery mode 2, persistent, are all that the header says.
            properties = struct.pack(">HHQH", 60, 0, len(message), 0x9000) + _short(b"application/json") + b"\x02"
            waiting.append(head + _frame(HEADER, _CHANNEL, properties) + _frame(BODY, _CHANNEL, message))
            sent += 1
            if len(waiting) == 100:
                self._socket.sendall(b"".join(waiting))
                waiting.clear()
                while sent - confirmed > AHEAD_MAX:
                    confirmed = self._confirmed(confirmed)
        self._socket.sendall(b"".join(waiting))
        while confirmed < sent:
            confirmed = self._confirmed(confirmed)
        return confirmed

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _confirmed(self, before: int) -> int:
        while True:
            kind, payload = self._receive()
            which = struct.unpack(">HH", payload[:4])
            if kind == METHOD and which == _ACK:
                tag, multiple = struct.unpack(">QB", payload[4:13])
                return max(before, tag) if multiple else before + 1
            if which == _NACK:
                raise RuntimeError("the broker refused a message")

    def _method(self, channel: int, which: int, number: int, arguments: bytes) -> None:
        self._socket.sendall(_frame(METHOD, channel, _method(which, number, arguments)))

    def _expect(self, which: int, number: int) -> bytes:
        kind, payload = self._receive()
        if kind != METHOD or struct.unpack(">HH", payload[:4]) != (which, number):
            raise RuntimeError(f"the broker answered {payload!r}, not {which}.{number}")
        return payload[4:]

    def _receive(self) -> tuple[int, bytes]:
        while len(self._left) < 7 or len(self._left) < 8 + struct.unpack(">I", self._left[3:7])[0]:
            data = self._socket.recv(1 << 16)
            if not data:
                raise RuntimeError("the broker closed the connection")
            self._left += data
        length = struct.unpack(">I", self._left[3:7])[0]
        kind, payload, self._left = self._left[0], self._left[7 : 7 + length], self._left[8 + length :]
        return kind, payload


def declare(port: int, queue: str) -> None:
    """Make a durable queue at a broker."""
    publisher = Publisher(port)
    publisher.declare(queue)
    publisher.close()


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _method(which: int, number: int, arguments: bytes) -> bytes:
    return struct.pack(">HH", which, number) + arguments


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + END
