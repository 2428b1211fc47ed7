"""``hookline kinds``: a folder to start from that is right as it is, and what is said of one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hookline.cli.commands import execute
from hookline.cli.completion import offered
from tests.unit.control.running import TOKEN, Running


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run ``hookline kinds``; its exit code, output and complaints."""
    code = execute(["kinds", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new kind."""
    assert run(capsys, "new", "acme-crm", "--into", str(tmp_path))[0] == 0
    return tmp_path / "acme-crm"


def test_a_new_kind_is_right_as_it_is(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no fault, and the check shows the request for its test event."""
    code, out, _ = run(capsys, "check", str(project))
    assert code == 0
    assert "Acme Crm is fine" in out
    assert "POST https://api.eu.example.com/v1/events" in out
    assert '{"events":[{"user":"user-1","name":"Order Completed"' in out
    assert run(capsys, "check", str(project / "hookline_acme_crm"), "--quiet")[1] == (
        "Acme Crm is fine. It takes identify, track, delete.\n"
    )


def test_a_kind_that_receives_no_deletions_is_told_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is fine without them; the check says what to add, so that nobody finds out by a person's request."""
    manifest = project / "hookline_acme_crm" / "kind.yaml"
    text = manifest.read_text().replace("track, delete]", "track]")
    manifest.write_text(text[: text.index("  # Deletion requests.")])
    code, out, _ = run(capsys, "check", str(project), "--quiet")
    assert (code, 'Add a request with the condition type = "delete"' in out) == (0, True)


def test_an_id_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package cannot bring a kind with the id of one that comes with Hookline."""
    code, _, error = run(capsys, "new", "slack", "--into", str(tmp_path))
    assert (code, "choose another id, such as my-slack" in error) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is in it: a project of another kind of work may have the same name."""
    file = tmp_path / "acme" / "pyproject.toml"
    file.parent.mkdir()
    file.write_text("mine")
    code, _, error = run(capsys, "new", "acme", "--into", str(tmp_path))
    assert (code, "exists already; choose another name, or remove it" in error) == (1, True)
    assert [each.name for each in file.parent.iterdir()] == ["pyproject.toml"]
    assert file.read_text() == "mine"


def test_pip_is_given_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for a bare name in the public index, where the package of somebody else may have it."""
    monkeypatch.chdir(tmp_path)
    assert "pip install ./acme " in run(capsys, "new", "acme")[1]
    assert "pip install ./kinds/acme " in run(capsys, "new", "acme", "--into", "kinds")[1]
    assert f"pip install {tmp_path}/other " in run(capsys, "new", "other", "--into", str(tmp_path))[1]


def test_faults_are_sentences_with_places(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the manifest, of what stands beside it, and of the package; as JSON too."""
    package = project / "hookline_acme_crm"
    manifest = package / "kind.yaml"
    manifest.write_text(manifest.read_text().replace("{{settings.region}}", "{{settings.zone}}"))
    (package / "guide.md").unlink()
    file = project / "pyproject.toml"
    file.write_text(file.read_text().replace('acme-crm = "hookline_acme_crm"', 'acme-crm = "other"'))
    code, out, _ = run(capsys, "check", str(project))
    assert code == 1
    assert "/requests/0/url: it reads settings.zone, which is not a setting; add it to settings" in out
    assert "guide.md: there is no guide.md" in out
    assert 'pyproject.toml: name the kind under [project.entry-points."hookline.destinations"]' in out
    code, out, _ = run(capsys, "check", str(project), "--json")
    assert code == 1
    assert {each["pointer"] for each in json.loads(out)["problems"]} >= {
        "guide.md",
        "pyproject.toml",
        "/requests/0/url",
    }


def test_the_test_event_is_tried(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An event that no request takes, one that lacks what a URL needs, and one that is none."""
    event = project / "hookline_acme_crm" / "event.json"
    for text, words in (
        ('{"type": "page", "userId": "u"}', "event.json: no request matches this event"),
        ('{"type": "identify", "anonymousId": "a"}', "/requests/0/url: the URL needs userId"),
        ("{", "event.json: "),
    ):
        event.write_text(text)
        code, out, _ = run(capsys, "check", str(project))
        assert (code, words in out) == (1, True), out


def test_the_test_event_may_be_a_delete_message(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The request for deletions is shown as it would be sent."""
    event = project / "hookline_acme_crm" / "event.json"
    event.write_text('{"type": "delete", "userId": "u1"}')
    code, out, _ = run(capsys, "check", str(project))
    assert (code, "Delete: DELETE https://api.eu.example.com/v1/people/u1" in out) == (0, True), out


def test_wrong_names_and_folders(tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each says what to do, and nothing is written over."""
    assert "small letters" in run(capsys, "new", "Not A Name")[2]
    code, _, err = run(capsys, "new", "acme-crm", "--into", str(tmp_path))
    assert (code, "exists already" in err) == (1, True)
    code, out, _ = run(capsys, "check", str(tmp_path / "nothing"))
    assert (code, "hookline kinds new NAME" in out) == (1, True)


def test_list_show_and_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the running service has, in words and as JSON, and offered to a shell."""
    with Running(tmp_path / "data") as control:
        server = ["--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN]
        assert "http  Webhooks  requests  0 destinations  hookline" in run(capsys, "list", *server)[1]
        kinds = json.loads(run(capsys, "list", "--json", *server)[1])
        assert {each["kind"] for each in kinds} >= {"webhook", "http"}
        out = run(capsys, "show", "http", *server)[1]
        assert "setting secrets: Secrets" in out
        assert "## Before you begin" in out
        assert run(capsys, "show", "nothing", *server)[0] == 1
        assert "http" in offered(["kinds", "show", *server, "ht"])
    assert {"list", "show", "new", "check"} <= set(offered(["kinds", ""]))
