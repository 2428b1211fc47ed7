"""docs/api.md against the description of the admin API."""

from __future__ import annotations

from hookline.api.openapi import description
from hookline.control.app import api
from tests.docs.api_page import PAGE, reference
from tests.docs.pages import ROOT

DESCRIBED = description(api())


def test_the_reference_is_of_this_description() -> None:
    """The page is what `make reference` would write."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == reference(DESCRIBED), "run: make reference"


def test_every_link_leads_to_an_object() -> None:
    """What a line names is explained on the page."""
    page = reference(DESCRIBED)
    for name in DESCRIBED["components"]["schemas"]:
        if f"](#{name.lower()})" in page:
            assert f"### {name}\n" in page
