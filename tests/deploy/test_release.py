"""``make release``: it refuses what is not fresh, each with a sentence, and says a version wherever it is said."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from scripts.release import stale
from scripts.release.__main__ import notes, refusals, uploads
from scripts.release.packages import run
from scripts.release.versions import CHANGELOGS, PLACES, disagreements, prepare, said, version

from tests.deploy.files import ROOT

DAY = "2026-12-01"
AUTHOR = {
    f"GIT_{who}_{key}": value
    for who in ("AUTHOR", "COMMITTER")
    for key, value in {"NAME": "A", "EMAIL": "a@example.com"}.items()
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository on main with the files that say the version, prepared for 9.9.9, and one fresh report."""
    for name in (*PLACES, *CHANGELOGS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    prepare(tmp_path, "9.9.9", DAY)
    (tmp_path / "docs/reports").mkdir(parents=True)
    (tmp_path / "docs/reports/scale.md").write_text("# Scale\n\nMade on 2026-11-30 by a command.\n")
    stale.git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def commit(repository: Path) -> None:
    """Commit everything."""
    stale.git(repository, "add", "--all")
    run(["git", "commit", "--quiet", "--message", "x"], repository, AUTHOR)


def test_what_is_fresh_is_not_refused(repository: Path) -> None:
    """Everything says the version, the changelogs have the section of the day, and the report is of this code."""
    assert refusals(repository, "9.9.9", DAY) == []
    assert stale.reports(repository) == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("echo x > new", "not committed: new"),
        ("echo '# x' >> pyproject.toml", "not committed: pyproject.toml"),
        ("git switch -qc other", "on other, not on main"),
        ("git switch -q --detach", "on no branch, not on main"),
        ("git tag v9.9.9", "the tag v9.9.9 is there already"),
    ],
)
def test_a_checkout_that_is_not_main_as_committed_is_refused(repository: Path, command: str, sentence: str) -> None:
    """A release is of main, as committed, and of a version once."""
    run(["sh", "-c", command], repository)
    assert refusals(repository, "9.9.9", DAY) == [sentence]


@pytest.mark.parametrize("place", PLACES)
def test_a_file_with_another_version_is_refused(repository: Path, place: str) -> None:
    """The packages, the chart and the compose file are of one version."""
    path = repository / place
    path.write_text(path.read_text().replace("9.9.9", "9.9.8", 1))
    commit(repository)
    (sentence,) = refusals(repository, "9.9.9", DAY)
    assert sentence.startswith(f"{place} says 9.9.8")


def test_this_tree_says_one_version() -> None:
    """Wherever this repository says its version, it is the same."""
    assert disagreements(ROOT, version()) == []
    assert len(said(ROOT, "deploy/helm/hookline/Chart.yaml")) == 2


@pytest.mark.parametrize("name", CHANGELOGS)
def test_a_changelog_without_the_section_of_the_day_is_refused(repository: Path, name: str) -> None:
    """Nothing is left under "Unreleased", and the date is that of the release."""
    path = repository / name
    path.write_text(path.read_text().replace(f"## 9.9.9 ({DAY})", "## Unreleased"))
    commit(repository)
    sentences = [f"{name} has a section that is not released", f"{name} has no section '## 9.9.9 ({DAY})'"]
    assert refusals(repository, "9.9.9", DAY) == sentences


def test_a_report_of_other_code_is_refused_and_named_in_the_notes(repository: Path) -> None:
    """Code that changed after the line with the day makes it old; a word in its prose does not make it new."""
    (repository / "src/hookline/new.py").write_text("")
    commit(repository)
    report = repository / "docs/reports/scale.md"
    report.write_text(report.read_text() + "\nMore prose.\n")
    commit(repository)
    (sentence,) = stale.reports(repository)
    assert sentence.startswith("docs/reports/scale.md was measured at ")
    assert sentence.endswith("; 1 commits have changed the code since")
    assert sentence in notes(repository, "9.9.9", [sentence])
    report.write_text(report.read_text().replace("11-30", "12-01"))
    commit(repository)
    assert stale.reports(repository) == []


def test_a_report_is_not_made_old_by_a_docstring(repository: Path) -> None:
    """What was measured is what runs."""
    code = next((repository / "src/hookline").rglob("*.py"))
    code.write_text(f"{code.read_text()}\n# A comment.\n")
    commit(repository)
    assert stale.reports(repository) == []


def test_a_report_of_events_is_not_made_old_by_a_page(repository: Path) -> None:
    """Others measure all there is."""
    (repository / "docs/reports/edges.md").write_text("# Edges\n\nMade on 2026-11-30 by a command.\n")
    commit(repository)
    (repository / "src/hookline/web").mkdir(parents=True, exist_ok=True)
    (repository / "src/hookline/web/page.py").write_text("")
    commit(repository)
    (sentence,) = stale.reports(repository)
    assert sentence.startswith("docs/reports/edges.md was measured at ")


def test_a_report_without_a_day_is_refused(repository: Path) -> None:
    """Nobody could say what code it is about."""
    (repository / "docs/reports/scale.md").write_text("# Scale\n")
    commit(repository)
    assert stale.reports(repository) == ["docs/reports/scale.md does not say when it was made"]


def test_a_generated_page_that_is_old_is_refused(repository: Path) -> None:
    """The commands run in a copy, so the checkout stays as it is."""
    (repository / "writes.py").write_text("from pathlib import Path\nPath('docs/api.md').write_text('new')\n")
    (repository / "docs/api.md").write_text("old")
    commit(repository)
    sentence = "docs/api.md is not what its command writes: make reference"
    assert stale.generated(repository, Path(sys.executable), ["writes"]) == [sentence]
    (repository / "docs/api.md").write_text("new")
    commit(repository)
    assert stale.generated(repository, Path(sys.executable), ["writes"]) == []


@pytest.mark.parametrize(
    ("script", "sentences"),
    [
        ("true", []),
        ("echo more >> requirements.lock", ["requirements.lock is not what its inputs resolve to: make lock"]),
        ("echo 'Failed to fetch: x' >&2; exit 1", []),
    ],
)
def test_a_lock_file_that_resolves_to_something_else_is_refused(
    repository: Path, script: str, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no index is reached, that is said instead."""
    (repository / "scripts").mkdir()
    (repository / "scripts/lock.sh").write_text(script)
    (repository / "requirements.lock").write_text("one\n")
    commit(repository)
    assert stale.locks(repository) == sentences
    assert ("could not be resolved" in capsys.readouterr().out) == ("fetch" in script)


def test_what_is_left_to_do_is_printed() -> None:
    """Uploads are commands for whoever releases."""
    assert "uv publish dist/*.whl dist/*.tar.gz" in uploads("9.9.9")
    assert "git push origin main v9.9.9" in uploads("9.9.9")
