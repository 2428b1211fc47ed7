"""The page on compatibility against what was measured, and recorded requests against the SDKs they stand in for."""

from __future__ import annotations

import pytest

from tests.service.sdks.compatibility import PAGE, page
from tests.service.sdks.every_sdk import SDKS
from tests.service.sdks.field import Field


@pytest.mark.timeout(900)  # by itself it makes all runs
def test_the_page_says_what_was_measured(field: Field, request: pytest.FixtureRequest) -> None:
    """The table is what these runs gave; --write-compatibility writes it, and the requests of what is recorded."""
    measured = page(field.run(sdk) for sdk in SDKS)
    if request.config.getoption("--write-compatibility", default=False):
        PAGE.write_text(measured)
        for sdk in SDKS:
            if sdk.is_recorded and sdk.is_installed:
                field.record(sdk)
    assert PAGE.read_text() == measured


def test_what_cannot_be_installed_everywhere_is_recorded() -> None:
    """Each SDK whose registry cannot always be reached has its requests in the repository."""
    assert all(list(sdk.recording.glob("*.http")) for sdk in SDKS if sdk.is_recorded)
    assert {folder.name for folder in SDKS[0].recording.parent.iterdir()} == {s.id for s in SDKS if s.is_recorded}
