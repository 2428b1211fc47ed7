"""Objects one by one, against a control that runs: what is typed, or stands in a file, arrives as it is meant."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from hookline.cli.commands import execute
from tests.unit.control.running import TOKEN, Running, source


def to(control: Running, *words: str) -> int:
    """Run a command that talks to this control; return its exit code."""
    return execute([*words, "--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN])


def test_an_account_and_a_token_are_known_by_id_before_name(control: Running) -> None:
    """Somebody called "u2" is not removed in place of the account u2, and a token that leaked is the one revoked."""
    for name in ("u2", "ada"):
        control.api("POST", "/users", {"name": name})
    for name in ("t2", "ci"):
        control.api("POST", "/tokens", {"name": name})
    assert to(control, "users", "remove", "u2") == to(control, "tokens", "revoke", "t2") == 0
    assert [each["name"] for each in control.api("GET", "/users").json["items"]] == ["u2"]
    assert [each["name"] for each in control.api("GET", "/tokens").json["items"]] == ["t2"]
    assert to(control, "users", "disable", " U2 ") == to(control, "tokens", "revoke", "t2") == 0
    assert control.api("GET", "/users/u1").json["disabled"]


def test_yaml_is_read_as_in_a_connections_file(control: Running, tmp_path: Path) -> None:
    """Take what looks like a date for text, and a key as it stands; refuse what is given twice, with its line."""
    file = tmp_path / "site.yaml"
    file.write_text("id: site\nname: 2026-11-20\ntype: server\nwriteKeys: [wk_site]\n")
    assert to(control, "sources", "put", str(file)) == 0
    assert control.api("GET", "/sources/site").json["name"] == "2026-11-20"
    file.write_text(file.read_text() + "name: Site\n")
    assert to(control, "sources", "put", str(file)) == 1
    assert control.api("GET", "/sources/site").json["name"] == "2026-11-20"


def test_json_is_read_as_json(control: Running, tmp_path: Path) -> None:
    """As `show` prints it: with tabs, and with pairs of escapes for one character."""
    file = tmp_path / "site.json"
    file.write_text(json.dumps(source(name="Site 🎉"), indent="\t"))
    assert to(control, "sources", "put", str(file)) == 0
    assert control.api("GET", "/sources/site").json["name"] == "Site 🎉"


def test_a_body_is_read_from_standard_input(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the help says: the word that names it is no option."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(source())))
    assert to(control, "api", "POST", "/sources", "--data", "-") == 0
    assert control.api("GET", "/sources/site").status == 200


@pytest.mark.parametrize("path", ["/events?text=Order Completed", "/events?text=Größe", "/events?text=Gr%C3%B6%C3%9Fe"])
def test_an_address_may_be_typed_as_it_is_read(asked: Running, path: str) -> None:
    """Blanks and letters of any language are written for the wire; what is written so already stays."""
    assert to(asked, "api", "GET", path) == 0


def test_of_changes_of_one_field_the_last_counts(control: Running) -> None:
    """Also where one is about a part of what another one replaces."""
    control.api("POST", "/sources", source())
    assert to(control, "sources", "change", "site", "rateLimit=1", "rateLimit.events=5") == 0
    assert control.api("GET", "/sources/site").json["rateLimit"]["events"] == 5


@pytest.mark.parametrize(("action", "printed"), [("retry", "there are none"), ("discard", "0 discarded")])
def test_where_nothing_matches_nobody_is_asked(
    control: Running, action: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script goes on as if there were some."""
    assert to(control, "dead-letters", action, "--all") == 0
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize("command", [("events",), ("history",), ("audit-log",), ("attempts", "crm")])
def test_a_list_of_nothing_is_wrong_use(
    asked: Running, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, and not that there is nothing."""
    assert to(asked, *command, "--limit", "0") == 2
    assert capsys.readouterr().out == ""
