"""Lines to type: the page gives them, and a terminal elsewhere runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.cli.launch import command_line
from hookline.settings import Settings


@pytest.mark.parametrize(("folder", "given"), [("hookline-data", ""), ("my data", " --data-dir '{}/my data'")])
def test_a_line_names_the_data_folder_where_the_command_would_look_in_another(
    folder: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual folder below the current one needs no option; any other is named, quoted for the shell."""
    monkeypatch.chdir(tmp_path)
    line = command_line("listen", Settings(data_dir=str(tmp_path / folder)))
    assert line.endswith("hookline listen" + given.format(tmp_path))
