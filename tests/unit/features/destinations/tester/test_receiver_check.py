"""Asking whether Hookline may send to a URL, before it is saved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.control.running import Running


def ask(control: Running, url: object) -> Any:
    """The answer for one URL."""
    return control.api("POST", "/receivers/check", {"url": url})


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("http://10.0.0.1/hook", "blocked_address", "10.0.0.1 is not a public address"),
        ("http://[::1]:8090/", "blocked_address", "deliver.allow_networks"),
        ("http://localhost:8090/", "blocked_address", "not a public address"),
        ("https://metadata.google.internal/", "blocked_address", "inside name"),
        ("https://nobody.invalid/hook", "name_not_resolved", "Check the spelling"),
    ],
)
def test_what_would_be_refused_is_said(control: Running, url: str, code: str, said: str) -> None:
    """With the code that an attempt would have, and the next step."""
    answer = ask(control, url)
    assert (answer.status, answer.json["code"]) == (200, code)
    assert said in answer.json["problem"]


def test_nothing_in_the_way(control: Running) -> None:
    """A public address, of which nothing is asked."""
    assert ask(control, "https://203.0.114.1/hook").json == {"code": None, "problem": None}


@pytest.mark.parametrize("url", ["http://[", "http://example.com:port/", ""])
def test_what_is_no_url(control: Running, url: str) -> None:
    """It is the request that is wrong, not the receiver."""
    answer = ask(control, url)
    assert (answer.status, answer.json["code"]) == (422, "invalid_object")
