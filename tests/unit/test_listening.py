"""Addresses that are listened on: all that a name has, as far as this machine has them."""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import Any

import pytest

from hookline import listening
from hookline.listening import CannotListen, all_bound, listening_at
from hookline.setting_values import parse_listen

ELSEWHERE = "192.0.2.1"
"""An address that no machine has (RFC 5737)."""


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the name ``several`` stands for."""
    found: list[str] = []
    ask = socket.getaddrinfo

    def answer(host: str, *rest: Any, **more: Any) -> list[Any]:
        return [each for name in (found if host == "several" else [host]) for each in ask(name, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return found


def test_an_address_that_the_machine_does_not_have_is_passed_over(addresses: list[str]) -> None:
    """As ::1 of localhost where there is no IPv6, in whatever order they come; where it is the only one it is said."""
    addresses[:] = [ELSEWHERE, "127.0.0.1"]
    (found,) = all_bound("several", 0)
    assert found.getsockname()[0] == "127.0.0.1"
    found.close()
    addresses[:] = [ELSEWHERE]
    with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
        all_bound("several", 0)


def test_an_address_that_is_freed_a_moment_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process was killed just now, and the system is not done with it."""
    monkeypatch.setattr(listening, "FREED_SECONDS", 60.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            all_bound(*parse_listen(address))
        threading.Timer(0.05, taken.close).start()
        (found,) = listening_at("collect.listen", address)
        found.close()


def test_an_address_that_is_taken_is_not_passed_over(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects there would meet another program."""
    monkeypatch.setattr(listening, "FREED_SECONDS", 0.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        addresses[:] = ["127.0.0.2", "127.0.0.1"]
        address = f"several:{taken.getsockname()[1]}"
        with pytest.raises(CannotListen, match=rf"{address}.*set collect\.listen"):
            listening_at("collect.listen", address)
