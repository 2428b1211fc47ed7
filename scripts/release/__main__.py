"""Make a release, or a part of it.

    python -m scripts.release packages               build what is published into dist/, check it and try it
    python -m scripts.release prepare VERSION        write a version, and today's section, wherever they are said
    python -m scripts.release VERSION [--allow-stale]   check everything, build, tag here, and say what to upload

Nothing is uploaded or pushed. Reports that were measured on other code refuse a release too; with ``--allow-stale`` the
release notes name them instead.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from scripts.release import descriptions, stale
from scripts.release.contents import problems
from scripts.release.packages import GO_MODULE, build_twice, sums, write_bill
from scripts.release.trial import try_packages
from scripts.release.versions import ROOT, disagreements, prepare, without_section

DIST = ROOT / "dist"
SUMS = "SHA256SUMS"
NOTES = "NOTES.md"


def refusals(root: Path, version: str, day: str) -> list[str]:
    """Return what the tree lacks for a release of this version on this day."""
    return [*stale.tree(root, version), *disagreements(root, version), *without_section(root, version, day)]


def packages(dist: Path) -> list[str]:
    """Build, check and try what is published; return what is wrong."""
    shutil.rmtree(dist, ignore_errors=True)
    found = [f"{name} differs from a second build" for name in build_twice(dist)]
    for archive in sorted(path for path in dist.rglob("*") if path.suffix in (".gz", ".whl", ".zip")):
        found += problems(archive)
    write_bill(dist)
    (dist / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums(dist).items()))
    with tempfile.TemporaryDirectory() as folder:
        try_packages(dist, Path(folder))
    return found


def notes(root: Path, version: str, old: list[str]) -> str:
    """Return the text of the release: its section of the changelog, and which reports are older than the code."""
    text = (root / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(version)} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, "without_section has looked"
    reports = ["", "Reports that were measured on other code:", "", *(f"- {each}" for each in old)] if old else []
    return "\n".join([section[0].rstrip(), *reports, ""])


def uploads(version: str) -> str:
    """Return the commands that publish what lies in dist/; whoever releases runs them."""
    libraries = [("go", GO_MODULE.rpartition("/")[2]), ("php", "hookline-php")]
    split = "".join(
        f"  git push {name.upper()} $(git subtree split --prefix=clients/{folder} v{version}):refs/tags/v{version}\n"
        for folder, name in libraries
    )
    return (
        f"v{version} is tagged here, and nothing is published. To publish it:\n"
        f"  git push origin main v{version}\n"
        "  uv publish dist/*.whl dist/*.tar.gz\n"
        f"{split}"
        "  # HOOKLINE-GO and HOOKLINE-PHP are the repositories of the two, which proxies and registries read\n"
        f"  make image PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:DIGEST, then push hookline:{version}\n"
        f"  release page: dist/{NOTES}, with dist/{SUMS} and dist/*.cdx.json\n"
    )


def release(root: Path, version: str, *, allow_stale: bool) -> int:
    """Make a release; return the exit code."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    found, old = refusals(root, version, day), [*stale.reports(root), *stale.long_runs()]
    found += stale.generated(root, root / ".venv/bin/python") + stale.locks(root)
    found += [] if allow_stale else old
    # What takes minutes is only done where nothing is in its way.
    found = found or [*packages(DIST), *descriptions.problems(root)]
    if found:
        print(f"No release of {version}:\n" + "\n".join(f"  {each}" for each in found), file=sys.stderr)
        return 1
    (DIST / NOTES).write_text(notes(root, version, old))
    stale.git(root, "tag", "--annotate", f"v{version}", "--message", f"Hookline {version}")
    print(uploads(version), end="")
    return 0


def main(arguments: list[str]) -> int:
    """Do what is asked for; return the exit code."""
    try:
        match arguments:
            case ["packages"]:
                found = packages(DIST)
                print("\n".join(found or (DIST / SUMS).read_text().splitlines()))
                return int(bool(found))
            case ["prepare", version]:
                prepare(ROOT, version, datetime.now(UTC).strftime("%Y-%m-%d"))
                return 0
            case [version, *options] if re.fullmatch(r"\d+\.\d+\.\d+", version) and options in ([], ["--allow-stale"]):
                return release(ROOT, version, allow_stale=bool(options))
    except RuntimeError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
