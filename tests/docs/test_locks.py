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
    "deploy/container/requirements.lock",
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
