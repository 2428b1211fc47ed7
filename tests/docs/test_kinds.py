"""The how-tos about kinds and about any API: what they tell people to write is right."""

from __future__ import annotations

import re

import msgspec

from hookline.connections.check import check_destination
from hookline.connections.model import Destination
from hookline.features.catalog.check import manifest_faults
from hookline.kinds.model import Batch, Success
from tests.docs.pages import DOCS

KIND = (DOCS / "how-to/add-a-destination-kind.md").read_text()
ANY_API = (DOCS / "how-to/send-to-any-api.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    """The code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_kind_of_the_page_is_right() -> None:
    """Its kind.yaml has no fault, and neither has what one may add to a request."""
    manifest, success = blocks(KIND, "yaml")
    kind, faults = manifest_faults(manifest)
    assert faults == []
    assert kind is not None
    assert kind.requests is not None
    _, faults = manifest_faults(f"{manifest.rstrip()}\n{success}")
    assert faults == []


def test_the_problem_that_the_page_shows_is_what_is_said() -> None:
    """The line of the check for a path that is a number."""
    (manifest, _) = blocks(KIND, "yaml")
    _, (fault,) = manifest_faults(manifest.replace('"$.properties.total"', "5"))
    assert f"{fault.pointer}: {fault.detail}" in KIND


def test_the_destination_of_the_page_is_right() -> None:
    """The connections file with a mapping can be applied, and the JSON of the editor is what it takes."""
    (file,) = blocks(ANY_API, "yaml")
    (fields,) = msgspec.yaml.decode(file)["destinations"]
    assert check_destination("", msgspec.convert(fields, Destination)) == []
    batch, success, items = blocks(ANY_API, "json")
    msgspec.json.decode(batch, type=Batch)
    for text in (success, items):
        (request,) = fields["mapping"]
        request |= {"success": msgspec.to_builtins(msgspec.json.decode(text, type=Success))}
        assert check_destination("", msgspec.convert(fields, Destination)) == []
