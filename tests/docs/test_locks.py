"""The lock files against pyproject.toml."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

LOCKS = [
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-tools.lock",
    "requirements-build.lock",
    "deploy/container/requirements.lock",
    "scripts/release/requirements.lock",
    "scripts/sdks/requirements.lock",
    "clients/python/tests/requirements.lock",
    "clients/python/bench/requirements.lock",
]


def names(requirements: list[str]) -> set[str]:
    """The distribution names of requirements."""
    return {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def locked(lock: str) -> set[str]:
    """The distribution names a lock file pins."""
    return set(re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / lock).read_text(), re.MULTILINE))


def test_every_dependency_is_locked() -> None:
    """A dependency added to pyproject.toml without `make lock` is noticed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert names(project["project"]["dependencies"]) <= locked("requirements.lock")
    assert names(project["dependency-groups"]["dev"]) <= locked("requirements-dev.lock")
    for extra in project["project"]["optional-dependencies"].values():
        assert names(extra) <= locked("requirements-dev.lock")
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]
    assert client["dependencies"] == []
    for extra in client.get("optional-dependencies", {}).values():
        assert names(extra) <= locked("requirements-dev.lock")


@pytest.mark.parametrize("lock", [*LOCKS, "scripts/sdks/package-lock.json"])
def test_locks_name_no_registry_and_check_what_they_install(lock: str) -> None:
    """Whoever installs uses the registry they are set up for, and gets exactly the files that were locked."""
    text = (ROOT / lock).read_text()
    assert not re.search(r'index-url|find-links|"resolved"|files\.pythonhosted|@ https?:', text)
    assert "--hash=sha256:" in text or '"integrity": "sha512-' in text


def test_what_builds_the_packages_is_locked() -> None:
    """The build backend of both packages is in a lock, and nothing that installs them fetches another one."""
    for project in ("pyproject.toml", "clients/python/pyproject.toml"):
        requires = tomllib.loads((ROOT / project).read_text())["build-system"]["requires"]
        assert names(requires) <= locked("requirements-build.lock")
    for installer in ("scripts/setup.sh", "deploy/container/Containerfile", "docs/how-to/run-in-production.md"):
        text = (ROOT / installer).read_text().replace("\\\n", " ")
        builds = [
            line
            for line in text.splitlines()
            if re.search(r'--editable|--no-deps",? ?"?\.|"\."\]$|no-deps.* \.$', line)
        ]
        assert builds, installer
        assert all("--no-build-isolation" in line for line in builds), installer


def test_locks_that_share_an_environment_agree() -> None:
    """What builds stands beside what runs, in the same versions."""
    pinned = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
    build = dict(pinned.findall((ROOT / "requirements-build.lock").read_text()))
    for lock in ("requirements.lock", "requirements-dev.lock"):
        other = dict(pinned.findall((ROOT / lock).read_text()))
        assert {name: other[name] for name in build if name in other} == {n: build[n] for n in build if n in other}
