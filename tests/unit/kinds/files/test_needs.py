"""Without its extra the kind says what to install: in check, at the admin API, and where its events wait."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from hookline.connections.kinds import kind_problems
from hookline.connections.model import Destination
from hookline.extras import install_extra
from hookline.kinds import catalog
from hookline.kinds.model import KindSettings
from hookline.kinds.sink import SinkFailed
from tests.unit.kinds.files.place import folder_sink

SENTENCE = f"the kind files needs the extra named files: {install_extra('files')}"


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for modules as on a machine that has no pyarrow."""

    def found(name: str) -> ModuleSpec | None:
        return None if name == "pyarrow" else importlib.util.find_spec(name)

    monkeypatch.setattr(catalog, "find_spec", found)


def problems() -> list[tuple[str, str, str]]:
    settings = KindSettings({"where": "folder"})
    return list(kind_problems(Destination(id="lake", name="L", kind="files", sources=("site",), settings=settings)))


@pytest.mark.usefixtures("without_pyarrow")
def test_it_says_what_to_install(tmp_path: Path) -> None:
    """A destination of the kind is refused, and one that is there waits with the same sentence."""
    assert problems() == [("unknown_kind", "kind", SENTENCE)]
    with pytest.raises(SinkFailed, match=r"pip install '\.\[files\]'"):
        folder_sink(tmp_path)


def test_with_the_extra_nothing_is_said() -> None:
    """The extra is installed here."""
    assert problems() == []
