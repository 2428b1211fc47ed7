"""docs/notices.md against the kinds of notices."""

from __future__ import annotations

from hookline.telemetry.notices import KINDS
from tests.docs.pages import rows


def test_every_kind_is_documented_with_its_severity() -> None:
    """The table lists exactly the kinds there are, in their order."""
    assert [(row[0], row[1]) for row in rows("notices.md")] == [(name, kind.severity) for name, kind in KINDS.items()]
