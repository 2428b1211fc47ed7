"""Where the service's ports listen: what an address in the settings means to the system, and who has the sockets.

A supervisor binds them and keeps them for its roles, which listen: while one of them is started again, who connects
waits for it instead of being refused. A role alone binds its own.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
import time

from hookline.roles import LISTENING_FDS, SUPERVISOR_FD
from hookline.setting_values import parse_listen

EVERYWHERE = "::"
"""Every address that the machine has, of either kind: what people mean by ``[::]``."""
FREED_SECONDS = 1.0
"""So long an address may still be in use that is about to be free."""
SETTLE_SECONDS = 0.05
"""For connections that are half open when no new ones are taken."""
SETTLE_LOOKS_MAX = 100
_POLL_SECONDS = 0.01
_NOT_OF_THIS_MACHINE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

_SO_ATTACH_FILTER = 26
_SYN_ALONE_IS_DROPPED = (
    (0x30, 0, 0, 13),  # the byte with the flags of the TCP header
    (0x54, 0, 0, 0x12),  # SYN and ACK of it
    (0x15, 0, 1, 0x02),  # SYN alone: a new connection
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)
"""A classic BPF program (linux/filter.h), as socket(7) takes it."""
_WAITING_AT = 24
"""In ``struct tcp_info`` of a listening socket: how many connections wait to be accepted."""


class CannotListen(Exception):
    """The address of a setting cannot be listened on; the message says what to do."""

    code = "cannot_start"


def all_bound(host: str, port: int) -> list[socket.socket]:
    """Return a socket that is bound and does not listen yet for each address that the host's name has; raise OSError.

    ``::`` takes IPv4 too, whatever the system's default is. An address that this machine does not have is passed over
    beside others: ``localhost`` is ``::1`` too without IPv6.
    """
    found: list[socket.socket] = []
    absent: OSError | None = None
    for place in _places(host, port):
        try:
            found.append(_bound(host, *place))
        except OSError as error:
            if error.errno not in _NOT_OF_THIS_MACHINE:
                for each in found:
                    each.close()
                raise
            absent = error
    if absent is not None and not found:
        raise absent
    return found


def bound_soon(host: str, port: int) -> list[socket.socket]:
    """Return the same, and wait up to ``FREED_SECONDS`` for an address that is in use; raise OSError.

    A process that was killed is gone before its sockets are: on a busy machine they still listen when the next one
    comes.
    """
    deadline = time.monotonic() + FREED_SECONDS
    while True:
        try:
            return all_bound(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_SECONDS)


def listening_at(key: str, address: str) -> list[socket.socket]:
    """Return the sockets that a supervisor keeps for this role, else such for the address, which is the value of a
    setting; raise CannotListen."""
    try:
        return handed_on() or bound_soon(*parse_listen(address))
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {address} ({error.strerror}); stop what uses it or set {key} to another address"
        ) from None


def handed_on() -> list[socket.socket]:
    """Return the sockets that a supervisor keeps for this role, each time anew; none where a role binds its own."""
    numbers = [int(number) for number in os.environ.get(LISTENING_FDS, "").split(",") if number]
    return [socket.socket(fileno=os.dup(number)) for number in numbers]


def has_successor() -> bool:
    """Return whether a supervisor has the sockets of this role and goes on: then it starts another one on them."""
    descriptor = os.environ.get(SUPERVISOR_FD)
    if not (descriptor and os.environ.get(LISTENING_FDS)):
        return False
    return not select.select([int(descriptor)], [], [], 0)[0]


async def take_no_more(listening: socket.socket) -> None:
    """Take no new connections on a socket that is being accepted from, and return when those that it has are accepted.

    Closing it would reset those that wait. Where it is closed soon, who is passed over here asks again in a second,
    and meets whoever listens then.
    """
    if not sys.platform.startswith("linux"):
        return
    import asyncio  # not for who only binds

    try:
        _drop_new(listening)
    except OSError:
        return  # the system has no room for another filter just now, or allows none
    await asyncio.sleep(SETTLE_SECONDS)
    for _ in range(SETTLE_LOOKS_MAX):
        info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING_AT + 4)
        if not struct.unpack_from("I", info, _WAITING_AT)[0]:
            break
        await asyncio.sleep(_POLL_SECONDS)


def _drop_new(listening: socket.socket) -> None:
    import ctypes  # at the end of a process alone

    lines = b"".join(struct.pack("HBBI", *line) for line in _SYN_ALONE_IS_DROPPED)
    program = ctypes.create_string_buffer(lines)
    value = struct.pack("HP", len(_SYN_ALONE_IS_DROPPED), ctypes.addressof(program))
    listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, value)


_Place = tuple[int, int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


def _places(host: str, port: int) -> list[_Place]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, kind, place) for family, kind, _, _, place in found))


def _bound(host: str, family: int, kind: int, place: object) -> socket.socket:
    found = socket.socket(family, kind)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != EVERYWHERE))
        found.bind(place)  # type: ignore[arg-type]
    except OSError:
        found.close()
        raise
    return found
