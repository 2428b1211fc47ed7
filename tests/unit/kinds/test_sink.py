"""The modules of kinds that make no requests, which may be other people's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.kinds.sink import sink_module


@pytest.mark.parametrize(
    "text", ["import not_there", "raise RuntimeError('it needs a newer library')", "def open_sink(:", "x = 1"]
)
def test_a_module_that_fails_is_one_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """However it fails: its destination waits, and the role goes on with all others."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_kind.py").write_text(text)
    with pytest.raises(ValueError, match="their_kind of the kind cannot be used"):
        sink_module("their_kind")
