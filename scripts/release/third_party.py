"""What is not ours: the files in the package that others wrote, and what it needs; writes THIRD_PARTY.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from scripts.release.contents import VENDORED
from scripts.release.versions import ROOT

PAGE = "THIRD_PARTY.md"
LOCKS = {"requirements.lock": "always", "deploy/container/requirements.lock": "with an extra"}
UNSAID = {"colorama": "BSD-3-Clause", "pysqlite3": "Zlib", "tzdata": "Apache-2.0"}
"""Licences of packages that do not say it in their metadata, or are installed on Windows alone."""
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)[^\n]*\n((?:    --hash=sha256:[0-9a-f]{64}[^\n]*\n?)+)", re.MULTILINE
)


@dataclass(frozen=True)
class Vendored:
    """A package of npm whose files lie in ours."""

    name: str
    version: str
    licence: str
    folder: str
    sums: dict[str, str]


@dataclass(frozen=True)
class Locked:
    """A package of PyPI that a lock file pins."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str
    when: str


def vendored(root: Path = ROOT) -> list[Vendored]:
    """Return what lies in the package, by folder."""
    found = []
    for path in sorted((root / "src/hookline").rglob(VENDORED)):
        package = json.loads((path.parent / "package.json").read_bytes())
        sums = {name: digest for digest, name in (line.split("  ./") for line in path.read_text().splitlines())}
        folder = str(path.parent.relative_to(root / "src"))
        found.append(Vendored(package["name"], package["version"], package["license"], folder, sums))
    return found


def locked(root: Path = ROOT) -> list[Locked]:
    """Return what the service is installed with, and what its extras add."""
    found: dict[str, Locked] = {}
    for lock, when in LOCKS.items():
        for name, version, hashes in PINNED.findall((root / lock).read_text()):
            sums = tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes))
            found.setdefault(name, Locked(name, version, sums, licence_of(name), when))
    return sorted(found.values(), key=lambda each: each.name)


def licence_of(name: str) -> str:
    """Return the licence that an installed package says, as SPDX writes it."""
    if name in UNSAID:
        return UNSAID[name]
    try:
        said = metadata(name)
    except PackageNotFoundError:
        raise RuntimeError(f"{name} is not installed, so its licence is not known: make setup") from None
    if "License-Expression" in said:
        return said["License-Expression"]
    if classified := [
        each.rpartition(" :: ")[2] for each in (said.get_all("Classifier") or []) if "License ::" in each
    ]:
        return " OR ".join(sorted({SPDX.get(each, each) for each in classified}))
    first = said["License"].strip().partition("\n")[0] if "License" in said else ""
    return SPDX.get(first, first) or "unknown"


def as_json(root: Path = ROOT) -> str:
    """Return both as JSON, with the licence of the whole: what the bill of materials is made from."""
    whole = re.search(r'^license = "([^"]+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert whole, "pyproject.toml names no licence"
    parts = {"vendored": [asdict(each) for each in vendored(root)], "locked": [asdict(each) for each in locked(root)]}
    return json.dumps({"licence": whole[1], **parts})


def page(root: Path = ROOT) -> str:
    """Return the text of the page."""
    return "\n".join(_lines(root))


def _lines(root: Path) -> Iterator[str]:
    yield "# What is not ours"
    yield ""
    yield "`make reference` writes this page from the files and the lock files. Hookline itself is under Apache-2.0."
    yield ""
    yield "## In the package"
    yield ""
    yield "Unchanged files of npm packages. Their sums are in `SHA256SUMS` beside them, and their licences among those"
    yield "of the wheel (`hookline-*.dist-info/licenses`). The browser SDK is itself made of other packages:"
    yield "`LICENSES-OF-PARTS.txt` has the licence of each."
    yield ""
    yield "| What | Version | Licence | Origin | Where |"
    yield "|---|---|---|---|---|"
    for part in vendored(root):
        origin = f"https://www.npmjs.com/package/{part.name}/v/{part.version}"
        yield f"| {part.name} | {part.version} | {part.licence} | <{origin}> | `{part.folder}` |"
    yield ""
    yield "## Installed with it"
    yield ""
    yield "From PyPI, as locked with hashes in `requirements.lock`, and in `deploy/container/requirements.lock` with"
    yield "every extra."
    yield ""
    yield "| What | Version | Licence | Needed |"
    yield "|---|---|---|---|"
    for each in locked(root):
        yield f"| {each.name} | {each.version} | {each.licence} | {each.when} |"
    yield ""


def write(root: Path = ROOT) -> None:
    """Write the page."""
    (root / PAGE).write_text(page(root))


if __name__ == "__main__":
    write()
