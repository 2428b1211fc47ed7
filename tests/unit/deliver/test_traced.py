"""Requests that carry on a trace are otherwise as all others are."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hookline.deliver.send.request import Template
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


def test_credentials_are_masked_where_requests_are_traced() -> None:
    """What a receiver sends back of them is not shown to who may not see what was sent."""
    plain = Template("https://crm.example.com/hook", b"", None)
    plain.hide({"Authorization": "Bearer s3cret-token"})
    (template,) = traced((plain,), destination())
    assert isinstance(template, TracedTemplate)
    assert template.hidden("not with s3cret-token") == plain.hidden("not with s3cret-token") != "not with s3cret-token"
