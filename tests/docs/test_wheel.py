"""What people install: the package and nothing of the checkout's rigs, tests and simulated worlds."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from hookline.web.docs import HOME, PAGES, pictures

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "hookline"
FOLDERS_OF_RIGS = {"crash", "edges", "faults", "fuzz", "isolation", "scale", "tests", "worlds"}
NAMED = re.compile(r"\b(?:hookline\.)?(bench|simulation)(?:\.(\w+)| import (\w+(?:, \w+)*))")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built as for a release."""
    builder = WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with ZipFile(wheel) as files:
        return set(files.namelist())


def test_the_wheel_holds_the_package_alone(names: set[str]) -> None:
    """Everything in it is Hookline's or says what it is, and every module of the package is in it."""
    outside = {name for name in names if not name.startswith("hookline/") and ".dist-info/" not in name}
    modules = {f"hookline/{path.relative_to(SOURCES)}" for path in SOURCES.rglob("*.py")}
    assert (outside, {name for name in names if name.endswith(".py")} ^ modules) == (set(), set())


def test_the_documentation_that_pages_show_is_in_the_wheel(names: set[str]) -> None:
    """Every page below /docs is found in an installed package too, and every picture of one."""
    paths = [f"{path}.md" for path in (HOME, *(page.path for page in PAGES))]
    assert {f"hookline/docs/{path}" for path in (*paths, *pictures())} - names == set()


def test_kinds_of_destination_are_in_the_wheel(names: set[str]) -> None:
    """Each folder of a kind is whole: what it is, its guide and its icon."""
    files = {path for path in (SOURCES / "kinds").glob("*/*") if path.suffix in (".yaml", ".md", ".svg")}
    assert {f"hookline/{path.relative_to(SOURCES)}" for path in files} - names == set()
    assert any(path.name == "kind.yaml" for path in files)


def test_no_rig_is_in_the_wheel(names: set[str]) -> None:
    """No folder of it is one of a rig's, and of ``bench`` and ``simulation`` it has what their commands use."""
    assert {name for name in names if FOLDERS_OF_RIGS & set(Path(name).parts)} == set()
    modules = {path for room in ("bench", "simulation") for path in (SOURCES / room).glob("*.py")}
    used = {"__init__"} | {name for path in SOURCES.rglob("*.py") for name in _named(path)}
    assert {path.name for path in modules if path.stem not in used} == set()


def test_the_package_imports_no_rig() -> None:
    """What is installed without the checkout never looks for it."""
    of_the_checkout = re.compile(r"^\s*(?:from|import) (?:bench|tests)\b", re.MULTILINE)
    assert [path for path in SOURCES.rglob("*.py") if of_the_checkout.search(path.read_text())] == []


def _named(path: Path) -> set[str]:
    """The modules of ``bench`` and ``simulation`` that a file imports, or starts as a program."""
    found = NAMED.findall(path.read_text())
    return {name for _, one, several in found for name in (one, *several.split(", ")) if name and name != path.stem}
