"""Lists as files."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest

from hookline.api import export
from tests.unit.control.running import Running, destination, record, source
from tests.unit.features.dead_letters.test_dead_letters import fill


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def test_all_that_matches_page_after_page(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CSV and as JSON, with the filters of the list, up to a limit."""
    monkeypatch.setattr(export, "PAGE_ROWS", 2)
    fill(control, 7)
    answer = control.api("GET", "/dead-letters/export?destination=erp")
    assert answer.headers["content-disposition"] == 'attachment; filename="dead-letters.csv"'
    rows = list(csv.DictReader(StringIO(answer.body.decode())))
    assert [row["messageId"] for row in rows] == ["m6", "m4", "m2", "m0"]
    assert rows[0]["error"] == "<b>no</b>"
    listed = control.api("GET", "/dead-letters?limit=200").json["items"]
    assert json.loads(control.api("GET", "/dead-letters/export?format=json").body) == listed
    assert json.loads(control.api("GET", "/dead-letters/export?format=json&source=none").body) == []
    assert control.api("GET", "/dead-letters/export?source=none").body.count(b"\n") == 1
    monkeypatch.setattr(export, "EXPORT_ROWS_MAX", 3)
    assert len(json.loads(control.api("GET", "/dead-letters/export?format=json").body)) == 3
    assert control.api("GET", "/dead-letters/export?format=xml").status == 400


def test_attempts_of_a_destination(control: Running) -> None:
    """A destination without any has a file of names."""
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/destinations/crm", destination("crm"))
    control.append(record("m0"))
    answer = control.api("GET", "/destinations/crm/attempts/export")
    assert answer.body.startswith(b"id,at,messageId,")
    assert control.api("GET", "/destinations/none/attempts/export").status == 404


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"])
def test_no_text_is_a_formula(text: str) -> None:
    """In no spreadsheet; numbers stay what they are."""
    assert export.cell(text) == f"'{text}"
    assert (export.cell(-1), export.cell(None), export.cell(True), export.cell("a=1")) == (-1, "", "true", "a=1")
