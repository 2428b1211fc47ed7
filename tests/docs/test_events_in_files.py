"""The page on events in files: its connections file is valid, and its SQL runs on files as the service writes them."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
import yaml

from hookline.connections.kinds import kind_problems
from hookline.connections.model import Destination
from hookline.kinds.files.manifests import Manifest
from hookline.kinds.model import KindSettings
from tests.docs.pages import DOCS, rows
from tests.unit.kinds.files.place import event, folder_sink

PAGE = "how-to/events-in-files.md"
TEXT = (DOCS / PAGE).read_text()


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(params=["parquet", "ndjson"])
def format(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write files of a format where the page says they are, beside the working folder; return the format."""
    sink = folder_sink(tmp_path / "hookline-data" / "files" / "lake", format=request.param)
    sink.write([event(n, properties={"total": 2.5}) for n in range(4)] + [event(9, name="Signed Up")])
    monkeypatch.chdir(tmp_path)
    return str(request.param)


def test_your_events_in_sql_in_one_line(format: str) -> None:
    """The line of the page, as it stands there, counts the events."""
    (line,) = [sql for sql in blocks("sql") if f"read_{format}" in sql]
    assert len(line.strip().splitlines()) == 1
    assert duckdb.sql(line.strip()).fetchall() == [("Order Completed", 4, 10.0), ("Signed Up", 1, None)]


def test_an_hour_is_a_column(format: str) -> None:
    """The folders of source, event and hour can be asked for as the page says, beside the event's own name."""
    found = duckdb.sql(
        f"SELECT DISTINCT source, event_name, event FROM read_{format}('hookline-data/files/lake/**/*.{format}*')"
        " WHERE hour = '2026-11-24T12' ORDER BY event"
    )
    assert found.fetchall() == [("web", "order_completed", "Order Completed"), ("web", "signed_up", "Signed Up")]


def test_manifests_name_the_files(format: str) -> None:
    """The line for load jobs gives each file with its rows."""
    (line,) = [sql for sql in blocks("sql") if "manifests" in sql]
    found = duckdb.sql(line.strip())
    paths, counts = found.columns.index("path"), found.columns.index("rows")
    assert sorted(row[counts] for row in found.fetchall()) == [1, 4]
    assert all(Path("hookline-data/files/lake", row[paths]).is_file() for row in found.fetchall())


def test_the_destinations_of_the_page_are_valid() -> None:
    """Both settings are accepted by the kind."""
    whole, bucket = (yaml.safe_load(block) for block in blocks("yaml"))
    settings = [whole["destinations"][0]["settings"], bucket["settings"]]
    for each in settings:
        destination = Destination(id="lake", name="Lake", kind="files", sources=("site",), settings=KindSettings(each))
        assert list(kind_problems(destination)) == []


def test_the_fields_of_manifests_are_those_of_the_code() -> None:
    """The table names fields that manifests have."""
    named = {name for row in rows(PAGE) for name in re.findall(r"[A-Za-z]+", row[0].replace("`", ""))}
    known = {
        "".join([first, *map(str.title, rest)]) for first, *rest in (f.split("_") for f in Manifest.__struct_fields__)
    }
    assert named - {"field"} <= known
