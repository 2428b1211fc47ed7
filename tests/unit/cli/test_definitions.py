"""Notes of `hookline check` on a file beside its problems, such as of audiences that may not be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.features.connections.cli.file import check_file
from hookline.journal.opening import claim
from hookline.settings import load

TEXT = """\
audiences:
  - {id: away, name: Away, condition: {event: Order, never: true, within: 40d}}
computedTraits:
  - {id: orders, name: Orders, event: Order, aggregate: count, destinations: [crm]}
destinations:
  - {id: crm, name: CRM, settings: {webhooks: [{url: "https://crm.example.com/hook"}]}}
"""


def test_doubts_are_told_and_are_no_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each, with the place; the exit code is that of a file that is fine, and a program is told of problems
    alone."""
    file = tmp_path / "connections.yaml"
    file.write_text(TEXT)
    settings, _ = load(environment={}, flags={"data_dir": str(tmp_path)})
    assert check_file(file, settings, as_json=False) == 0
    fine, *doubts = capsys.readouterr().out.splitlines()
    assert fine.endswith("fine")
    assert [line.split(": ")[:2] for line in doubts] == [
        ["away", "audiences[0].destinations"],
        ["away", "audiences[0].condition.within"],
        ["away", "audiences[0].condition"],
    ]
    assert check_file(file, settings, as_json=True) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_file_is_fine_also_where_its_filters_cannot_be_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While brokers are away the events are, and the check needs none."""
    file = tmp_path / "connections.yaml"
    file.write_text(TEXT.replace("id: crm, name: CRM,", "id: crm, name: CRM, filters: [{if: 'true', do: drop}],"))
    settings, _ = load(environment={}, flags={"data_dir": str(tmp_path), "journal.url": "kafka://127.0.0.1:1/hookline"})
    (tmp_path / "journal").mkdir()
    claim(settings)
    assert check_file(file, settings, as_json=False) == 0
    assert "the filters were not tried: no Kafka broker answers at 127.0.0.1:1" in capsys.readouterr().out
