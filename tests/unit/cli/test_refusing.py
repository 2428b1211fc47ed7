"""Sockets that the supervisor keeps for a role that fails again and again."""

from __future__ import annotations

import socket

import pytest

from hookline.cli.service.supervisor import _refuse
from hookline.listening import all_bound


@pytest.fixture
def kept() -> socket.socket:
    """A socket that is bound, as the supervisor has it."""
    return all_bound("127.0.0.1", 0)[0]


def test_who_connects_is_refused_until_a_role_listens_again(kept: socket.socket) -> None:
    """Nobody waits for a role that may never come."""
    kept.listen()
    _refuse([kept.fileno()])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(kept.getsockname())
    assert can_be_read_from(kept)


def test_a_role_that_never_listened_is_heard_when_it_does(kept: socket.socket) -> None:
    """One that failed at its first start as well: its connections can be read from."""
    _refuse([kept.fileno()])
    assert can_be_read_from(kept)


def can_be_read_from(kept: socket.socket) -> bool:
    """Whether a connection can be read from: it has not ended before anything was sent."""
    kept.listen()
    with socket.create_connection(kept.getsockname()), kept.accept()[0] as server:
        server.setblocking(False)
        try:
            return bool(server.recv(1))
        except BlockingIOError:
            return True
