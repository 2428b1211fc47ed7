"""What people install: that it works, and holds nothing of the checkout's rigs, tests and simulated worlds."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest
from scripts.release import third_party
from scripts.release.contents import problems
from scripts.release.packages import build_python, build_twice
from scripts.release.trial import try_packages

from hookline.bench.service import free_port
from hookline.web.docs import HOME, PAGES, pictures
from tests.deploy.files import ROOT

SOURCES = ROOT / "src" / "hookline"
FOLDERS_OF_RIGS = {"crash", "edges", "faults", "fuzz", "isolation", "scale", "tests", "worlds"}
NAMED = re.compile(r"\b(?:hookline\.)?(bench|simulation)(?:\.(\w+)| import (\w+(?:, \w+)*))")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and sdists, built as for a release: a second build elsewhere has the same bytes."""
    folder = tmp_path_factory.mktemp("dist")
    assert build_twice(folder, [build_python]) == []
    return folder


@pytest.fixture(scope="module")
def names(dist: Path) -> set[str]:
    """The names of the files in the wheel of the service."""
    (wheel,) = dist.glob("hookline-*.whl")
    with ZipFile(wheel) as files:
        return set(files.namelist())


def test_packages_hold_the_product_and_its_licences(dist: Path) -> None:
    """No test, rig, source map, leftover or huge file, and a licence for everything that is not ours."""
    archives = sorted(dist.iterdir())
    assert [path.name.partition("-0")[0] for path in archives] == ["hookline"] * 2 + ["hookline_client"] * 2
    assert [each for path in archives for each in problems(path)] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hookline/tests/x.py", "holds hookline/tests/x.py"),
        ("hookline/web/x.js.map", "holds hookline/web/x.js.map"),
        ("hookline/x/SHA256SUMS", "does not give the licence of hookline/x among its own"),
    ],
)
def test_what_does_not_belong_is_named(dist: Path, tmp_path: Path, name: str, said: str) -> None:
    """A wheel with one file too many is refused with the file."""
    (wheel,) = dist.glob("hookline-*.whl")
    changed = tmp_path / wheel.name
    changed.write_bytes(wheel.read_bytes())
    with ZipFile(changed, "a") as files:
        files.writestr(name, "")
    assert problems(changed) == [f"{wheel.name} {said}"]


def test_packages_work_where_this_repository_is_not_known(dist: Path, tmp_path: Path) -> None:
    """Installed as locked, started as the README says: an event, a page, and a doctor without fault."""
    ports = {f"HOOKLINE_{role}_LISTEN": f"127.0.0.1:{free_port()}" for role in ("COLLECT", "CONTROL")}
    try_packages(dist, tmp_path, ("python",), ports)


def test_the_page_of_what_is_not_ours_is_current() -> None:
    """Whoever vendors a file or locks a dependency writes the page anew."""
    assert (ROOT / third_party.PAGE).read_text() == third_party.page(), "make reference"


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
