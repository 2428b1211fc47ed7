"""docs/reference/metrics.md against the table of metrics."""

from __future__ import annotations

import re
from typing import get_args

from hookline.database.location import Which
from hookline.telemetry.metrics import METRICS
from tests.docs.pages import DOCS, rows


def test_the_table_is_the_registry() -> None:
    """The page lists exactly the metrics there are, each with its kind, unit, label and meaning."""
    expected = [[name, m.kind, m.unit or "–", m.label or "–", m.help] for name, m in METRICS.items()]
    assert rows("reference/metrics.md") == expected


def test_metrics_named_in_any_page_exist() -> None:
    """No page of the documentation names a metric that is not there."""
    text = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))
    named = set(re.findall(r"`(hookline_\w+)`", text)) - {"hookline_client"}  # a package, and the name of its logger
    named -= {f"hookline_{which}" for which in get_args(Which)}  # schemas in PostgreSQL
    assert named <= set(METRICS) | {"hookline_role_up"}  # this one says who reports: no role reports it
