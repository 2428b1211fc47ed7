"""Objects one by one, against a control that runs: what is typed, or stands in a file, arrives as it is meant."""

from __future__ import annotations

from hookline.cli.commands import execute
from tests.unit.control.running import TOKEN, Running


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
