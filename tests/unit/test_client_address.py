"""Whose address a request is put down to, behind proxies."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from hookline.client_address import client_address
from hookline.settings import Collect, Networks
from tests.unit.control.running import Running

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),  # no proxy of ours: it may say what it likes
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.7, 203.0.113.9"], "203.0.113.9"),  # the first one is what the client made up
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9", "10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, , 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8::9]:4711"], "2001:db8::9"),
        ("10.0.0.1", ["2001:DB8::9"], "2001:db8::9"),
        ("10.0.0.1", ["fe80::9%eth0"], "fe80::9"),
        ("10.0.0.1", ['fe80::9%"', "fd00::2%x"], "fe80::9"),
        ("fd00::1", ["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", [", ".join(["203.0.113.9", *["10.0.0.2"] * 5_000])], "10.0.0.2"),  # not followed for ever
    ],
)
def test_only_what_trusted_proxies_said_is_believed(peer: str, forwarded: list[str], expected: str) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert client_address(peer, [(b"host", b"x"), *headers], TRUSTED) == expected


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        (["for=203.0.113.9"], "203.0.113.9"),
        (['FOR="203.0.113.9:4711";proto=https;by=10.0.0.1'], "203.0.113.9"),
        (['for="[2001:db8::9]:4711"'], "2001:db8::9"),
        (['for="[2001:db8::9]"; host="a,b;c"'], "2001:db8::9"),
        (['for="203.0.113.9:_port"'], "203.0.113.9"),
        (["for=198.51.100.7, for=203.0.113.9;proto=http , for=10.0.0.2"], "203.0.113.9"),
        (["for=198.51.100.7", "for=203.0.113.9"], "203.0.113.9"),
        (['for="\\2\\03.0.113.9"'], "203.0.113.9"),
        (["for=unknown"], "10.0.0.1"),
        (["for=203.0.113.9, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
        (["for=203.0.113.9, proto=https"], "10.0.0.1"),
        (["203.0.113.9"], "10.0.0.1"),
        (['for=198.51.100.7;by=", for=203.0.113.9'], "203.0.113.9"),  # what a client leaves open hides nothing
        (['for=198.51.100.7;by="', 'for="[2001:db8::9]"'], "2001:db8::9"),
        (["for=203.0.113.9;" + "x=y," * 4_000], "10.0.0.1"),
    ],
)
def test_forwarded_says_the_same_as_x_forwarded_for(forwarded: list[str], expected: str) -> None:
    """RFC 7239: quoted, IPv6 with a port, several elements; hidden and unknown ones end what is believed."""
    headers = [(b"forwarded", value.encode()) for value in forwarded]
    assert client_address("10.0.0.1", headers, TRUSTED) == expected
    assert client_address("192.0.2.1", headers, TRUSTED) == "192.0.2.1"


def test_x_forwarded_for_goes_before_forwarded() -> None:
    """A proxy that writes the one passes on the other as the client made it up."""
    headers = [(b"forwarded", b"for=198.51.100.7"), (b"x-forwarded-for", b"203.0.113.9")]
    assert client_address("10.0.0.1", headers, TRUSTED) == "203.0.113.9"


def test_nobody_is_trusted_unless_the_settings_say_so() -> None:
    assert client_address("127.0.0.1", [(b"x-forwarded-for", b"203.0.113.9")], ()) == "127.0.0.1"


@pytest.mark.parametrize(("trusted", "others"), [((), 429), (("127.0.0.0/8",), 403)])
def test_wrong_passwords_count_against_who_sent_them(tmp_path: Path, trusted: tuple[str, ...], others: int) -> None:
    """Behind a trusted proxy, a stranger who is refused for too many tries is so alone."""
    with Running(tmp_path / "data", collect=Collect(trusted_proxies=Networks(trusted))) as control:
        statuses = [_try(control, "203.0.113.9") for _ in range(6)]
        assert statuses == [403] * 5 + [429]
        assert _try(control, "203.0.113.10") == others


def _try(control: Running, address: str) -> int:
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"http://127.0.0.1:{control.port}",
        "X-Forwarded-For": address,
    }
    return control.call("POST", "/login", b"password=wrong", headers, token=False).status
