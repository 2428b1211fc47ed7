"""docs/reference/own-directives.md: every example gives what the page says, and every directive is on it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hookline.kinds.mapping import compile_mapping
from hookline.kinds.mapping.own import OWN_DIRECTIVES
from tests.docs.pages import DOCS

TEXT = (DOCS / "reference/own-directives.md").read_text()
EVENT = json.loads(re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0])
EXAMPLES = re.findall(r"^\| `(\{.*\})` \| `(.*)` \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("document", "given"), EXAMPLES)
def test_the_examples(document: str, given: str) -> None:
    """What is written gives what stands beside it."""
    found: Any = compile_mapping(json.loads(document)).resolve(EVENT)
    assert found == json.loads(given)


def test_every_directive_is_explained() -> None:
    """Each has a section and an example."""
    assert re.findall(r"^## (@\w+)$", TEXT, re.MULTILINE) == list(OWN_DIRECTIVES)
    assert {directive for document, _ in EXAMPLES for directive in OWN_DIRECTIVES if f'"{directive}"' in document} == {
        *OWN_DIRECTIVES
    }
