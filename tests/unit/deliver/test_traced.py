"""Requests that carry on a trace are otherwise as all others are."""

from __future__ import annotations

from hookline.deliver.send.request import Template
from hookline.deliver.traced import TracedTemplate, traced
from tests.unit.deliver.rig import destination


def test_credentials_are_masked_where_requests_are_traced() -> None:
    """What a receiver sends back of them is not shown to who may not see what was sent."""
    plain = Template("https://crm.example.com/hook", b"", None)
    plain.hide({"Authorization": "Bearer s3cret-token"})
    (template,) = traced((plain,), destination())
    assert isinstance(template, TracedTemplate)
    assert template.hidden("not with s3cret-token") == plain.hidden("not with s3cret-token") != "not with s3cret-token"
