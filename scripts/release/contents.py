"""What published files may hold: the product and its licences; no tests, rigs, source maps or leftovers."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from zipfile import ZipFile

BYTES_MAX = 256 * 1024
"""Of one file: the largest is the API's page of docs/, then the browser SDK."""
NEVER = re.compile(
    r"(?:^|/)(?:tests?|rigs|__pycache__|node_modules|spool-\d+|\.\w[^/]*)/|\.(?:map|pyc|orig|rej|db|log)$"
    r"|(?:^|/)(?:conftest|test_\w+|\w+_test)\.py$"
)
OF_A_LIBRARY = re.compile(r"(?:^|/)(?:bench|examples|tests)/|(?:^|/)(?:phpunit|phpcs)\.xml$")
VENDORED = "SHA256SUMS"
"""Lies in each folder of somebody else's files."""


def members(archive: Path) -> dict[str, int]:
    """Return the files of an archive and their sizes, the folder that an sdist or module has around them left out."""
    if archive.suffix == ".whl":
        with ZipFile(archive) as files:
            return {info.filename: info.file_size for info in files.infolist()}
    if archive.suffix == ".zip":
        # A module's is MODULE@VERSION, with slashes.
        with ZipFile(archive) as files:
            return {
                re.sub(r"^(?:.*?@v[^/]+|[^/]+)/", "", info.filename, count=1): info.file_size
                for info in files.infolist()
                if not info.is_dir()
            }
    with tarfile.open(archive) as packed:
        return {member.name.partition("/")[2]: member.size for member in packed if member.isfile()}


def problems(archive: Path) -> list[str]:
    """Return what is wrong with an archive: what it must not hold, and what it lacks."""
    files = members(archive)
    kept_tests = re.compile(r"_test\.go$") if archive.parent.name == "@v" else None
    found = [f"holds {name}" for name in files if NEVER.search(name) and not (kept_tests and kept_tests.search(name))]
    found += [f"{name} has {size} bytes" for name, size in files.items() if size > BYTES_MAX]
    if archive.suffix == ".zip":
        found += [f"holds {name}" for name in files if OF_A_LIBRARY.search(name)]
    if archive.suffix == ".whl":
        found += _wheel_problems(files)
    elif "LICENSE" not in files:
        found.append("has no LICENSE")
    return [f"{archive.name} {each}" for each in found]


def _wheel_problems(files: dict[str, int]) -> list[str]:
    (package,) = {name.partition("/")[0] for name in files if ".dist-info/" not in name} or {""}
    licences = {name.partition("/licenses/")[2] for name in files if ".dist-info/licenses/" in name}
    found = [] if "LICENSE" in licences else ["has no LICENSE"]
    for folder in (name.rpartition("/")[0] for name in files if name.endswith(f"/{VENDORED}")):
        inside = [name for name in files if name.startswith(f"{folder}/") and "LICENSE" in name.rpartition("/")[2]]
        missing = [name for name in inside if f"src/{name}" not in licences]
        if missing or not inside:
            found.append(f"does not give the licence of {folder} among its own")
    if f"{package}/py.typed" not in files:
        found.append("has no py.typed")
    return found
