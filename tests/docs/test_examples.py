"""The examples are good files."""

from __future__ import annotations

import re

import pytest

from hookline.connections.file import check, check_text
from tests.docs.pages import DOCS, ROOT


def test_the_example_connections_are_a_good_file() -> None:
    """The connections file people copy from passes the check."""
    assert check(ROOT / "examples" / "connections.yaml") == []


@pytest.mark.parametrize("page", ["how-to/come-from-svix-or-convoy.md"])
def test_connections_on_a_page_are_good(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people paste into their file passes the check, beside the source that it names."""
    monkeypatch.setenv("HOOKLINE_SECRET_CUSTOMER_42", "whsec_" + "c2VjcmV0" * 6)
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert check_text("sources: [{id: backend, name: Backend, writeKeys: [wk_backend]}]\n" + text) == []
