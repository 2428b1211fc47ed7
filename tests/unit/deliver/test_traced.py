"""Requests that carry on a trace are otherwise as all others are."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from hookline.connections.secrets import MASK, mask
from hookline.deliver.send import request
from hookline.deliver.send.request import HIDDEN_FROM_CHARS, Template
from hookline.deliver.traced import TracedTemplate, traced
from tests.unit.deliver.rig import destination


def _in_capitals(text: str) -> str:
    return json.dumps(text).replace("00e", "00E").replace("00f", "00F")


@pytest.mark.parametrize("write", [str, json.dumps, lambda text: json.dumps(text).replace("/", r"\/"), _in_capitals])
def test_credentials_are_masked_however_they_are_written(write: Callable[[str], str]) -> None:
    """A receiver may send them back in JSON, which can be written in several ways."""
    template = Template("https://crm.example.com/hook", b"", None)
    template.hide({"Authorization": "Bearer c2Vj/mV0/dG9rZW4", "X-Key": "s\u00e4cr\u00e9t/w\u00f6rd-1"})
    for credential in ("c2Vj/mV0/dG9rZW4", "s\u00e4cr\u00e9t/w\u00f6rd-1"):
        written = write(credential).strip('"')
        assert written not in template.hidden(f"got {written} from you")


@pytest.mark.parametrize("credential", ["aaaaaaaaaaaaaaab", "eyJhbGciOiJeyJhbGciOiJ9", "s3cret-token"])
def test_half_a_credential_at_the_end_is_masked(credential: str) -> None:
    """Of a long answer the end is cut off; all that could be its beginning goes, were it to repeat itself."""
    template = Template("https://crm.example.com/hook", b"", None)
    template.hide({"X-Key": credential})
    for length in range(HIDDEN_FROM_CHARS, len(credential)):
        assert template.hidden(f"got {credential[:3]} {credential[:length]}") == f"got {credential[:3]} {MASK}"


def test_what_begins_like_a_credential_everywhere_is_masked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that knows a credential may repeat its beginning: few places are compared, none is shown unseen."""
    monkeypatch.setattr(request, "BEGINNINGS_MAX", 2)
    template = Template("https://crm.example.com/hook", b"", None)
    template.hide({"X-Key": "a" * 90})
    begun = "a" * HIDDEN_FROM_CHARS
    assert template.hidden(f"{begun}1 {'a' * 90} {begun}2") == f"{begun}1 {mask('a' * 90)} {begun}2"
    assert template.hidden(f"{begun}1 {begun}2 {begun}3 {'a' * 90}") == f"{begun}1 {begun}2 {MASK}"
    assert template.hidden("a" * 80 + "x") == f"aa{MASK}"


def test_how_a_fetched_credential_is_written_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused batch asks for each of a thousand events, and for each new token anew."""
    written: list[tuple[str, ...]] = []
    write = request._written_as
    monkeypatch.setattr(request, "_written_as", lambda words: written.append(words) or write(words))
    template = Template("https://crm.example.com/hook", b"", None)
    for token in ("first-token", "second-token"):
        template.hide_fetched(partial(tuple, [token]))
        assert {template.hidden(f"not with {token}") for _ in range(10)} == {f"not with {mask(token)}"}
    assert written == [("first-token",), ("second-token",)]


def test_credentials_are_masked_where_requests_are_traced() -> None:
    """What a receiver sends back of them is not shown to who may not see what was sent."""
    plain = Template("https://crm.example.com/hook", b"", None)
    plain.hide({"Authorization": "Bearer s3cret-token"})
    (template,) = traced((plain,), destination())
    assert isinstance(template, TracedTemplate)
    assert template.hidden("not with s3cret-token") == plain.hidden("not with s3cret-token") != "not with s3cret-token"
