"""The version: the files that say it, and the sections of the changelogs that are about it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PLACES = {
    "pyproject.toml": r'^version = "([^"]+)"',
    "src/hookline/__init__.py": r'^__version__ = "([^"]+)"',
    "clients/python/src/hookline_client/version.py": r'^VERSION = "([^"]+)"',
    "clients/go/transport.go": r'^const Version = "([^"]+)"',
    "clients/php/src/Message.php": r"const VERSION = '([^']+)'",
    "deploy/helm/hookline/Chart.yaml": r'^(?:version|appVersion): "?([\d.]+)"?$',
    "deploy/compose/compose.yaml": r"^    image: hookline:(\S+)",
}
"""Every file that says the version, and how."""
CHANGELOGS = ("CHANGELOG.md", "clients/go/CHANGELOG.md", "clients/php/CHANGELOG.md", "clients/python/CHANGELOG.md")
UNRELEASED = re.compile(r"^## (?:Unreleased|[\d.]+ \(not released\))$", re.MULTILINE)


def version(root: Path = ROOT) -> str:
    """Return the version of this tree."""
    return said(root, "pyproject.toml")[0]


def said(root: Path, place: str) -> list[str]:
    """Return the versions that a file says."""
    return re.findall(PLACES[place], (root / place).read_text(), re.MULTILINE)


def disagreements(root: Path, wanted: str) -> list[str]:
    """Return the files that say another version, or none."""
    found = {place: said(root, place) for place in PLACES}
    return [
        f"{place} says {', '.join(versions) or 'no version'}, not {wanted}"
        for place, versions in found.items()
        if set(versions) != {wanted}
    ]


def without_section(root: Path, wanted: str, day: str) -> list[str]:
    """Return what keeps the changelogs from being those of a release of this day."""
    problems = []
    for name in CHANGELOGS:
        text = (root / name).read_text()
        if UNRELEASED.search(text):
            problems.append(f"{name} has a section that is not released")
        if f"\n## {wanted} ({day})\n" not in text:
            problems.append(f"{name} has no section '## {wanted} ({day})'")
    return problems


def prepare(root: Path, wanted: str, day: str) -> None:
    """Write the version where it is said, and make of what is not released its section, of this day."""
    for place, pattern in PLACES.items():
        text = (root / place).read_text()
        for old in reversed(list(re.finditer(pattern, text, re.MULTILINE))):
            text = text[: old.start(1)] + wanted + text[old.end(1) :]
        (root / place).write_text(text)
    for name in CHANGELOGS:
        path = root / name
        path.write_text(UNRELEASED.sub(f"## {wanted} ({day})", path.read_text(), count=1))
