"""Endpoints as people write them."""

from __future__ import annotations

import pytest

from hookline_client.endpoint import Endpoint, parse_endpoint
from hookline_client.errors import InvalidOption


@pytest.mark.parametrize(
    ("text", "ssl", "expected"),
    [
        ("https://events.example.com", True, Endpoint(True, "events.example.com", 443, "")),
        ("http://127.0.0.1:8080/", True, Endpoint(False, "127.0.0.1", 8080, "")),
        ("https://example.com/hookline/v1/", True, Endpoint(True, "example.com", 443, "/hookline")),
        ("example.com", True, Endpoint(True, "example.com", 443, "")),
        ("example.com:8443", True, Endpoint(True, "example.com", 8443, "")),
        ("localhost:8080", False, Endpoint(False, "localhost", 8080, "")),
        ("http://[::1]:8080", True, Endpoint(False, "::1", 8080, "")),
        ("http://münchen.example", True, Endpoint(False, "xn--mnchen-3ya.example", 80, "")),
    ],
)
def test_endpoints_are_taken_apart(text: str, ssl: bool, expected: Endpoint) -> None:
    """The scheme decides about TLS, and ``ssl`` where there is none."""
    assert parse_endpoint(text, ssl) == expected


@pytest.mark.parametrize(
    ("text", "ssl"),
    [
        ("", True),
        ("ftp://example.com", True),
        ("http://", True),
        ("http://a:b", True),
        ("http://u:p@a", True),
        ("http://:p@a", True),
        ("http://a/?q=1", True),
        ("https://a", False),
        ("https://a b", True),
        ("https://a/b c", True),
        ("https://a/ä", True),
        (f"https://{'ä' * 70}", True),
    ],
)
def test_what_is_no_endpoint_is_refused(text: str, ssl: bool) -> None:
    """When the client is made, not in a thread later."""
    with pytest.raises(InvalidOption):
        parse_endpoint(text, ssl)


@pytest.mark.parametrize("text", ["https://user:secret@example.com", "https://user:secret@example.com:port"])
def test_a_password_in_an_endpoint_is_not_shown(text: str) -> None:
    """What is raised ends up in logs."""
    with pytest.raises(InvalidOption, match=r"^((?!secret).)*password$"):
        parse_endpoint(text, ssl=True)
