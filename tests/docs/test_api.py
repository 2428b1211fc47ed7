"""docs/reference/api.md against the description of the admin API."""

from __future__ import annotations

import re

from tests.docs.api_page import PAGE, reference
from tests.docs.pages import ROOT
from tests.unit.api.described import described


def test_the_reference_is_of_this_description() -> None:
    """The page is what `make reference` would write."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == reference(described()), "run: make reference"


def test_every_link_leads_to_an_object() -> None:
    """What a line names is explained on the page."""
    page = reference(described())
    for name in described()["components"]["schemas"]:
        if f"](#{name.lower()})" in page:
            assert f"### {name}\n" in page


def test_descriptions_name_fields_as_they_are_sent() -> None:
    """Not as the code spells them, and each says what its object is."""
    for name, schema in described()["components"]["schemas"].items():
        text = schema.get("description", "")
        spelled = {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", field).lower(): field for field in schema.get("properties", {})}
        named = set(re.findall(r"``([a-z_]+?)_?``", text))
        assert {each: spelled[each] for each in named & spelled.keys() if spelled[each] != each} == {}, name
        assert ".py" not in text, name
        assert not re.match("(Hold|Say|Count) ", text), name
