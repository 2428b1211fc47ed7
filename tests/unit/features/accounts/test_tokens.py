"""Tokens of programs: made once, shown once, found by scanners, good until they expire or are revoked."""

from __future__ import annotations

import re

import pytest

from hookline.api.auth.service import session_store
from hookline.api.caller import is_token, new_token
from hookline.api.services import control_database
from hookline.database.sqlite import OperationalError
from tests.unit.control.running import Answer, Running, source


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def made(control: Running, **fields: str) -> tuple[str, str]:
    """A new token's id and text."""
    answer = control.api("POST", "/tokens", {"name": "ci", **fields})
    assert answer.status == 201, answer.text
    return answer.json["token"]["id"], answer.json["text"]


def call(control: Running, text: str, method: str = "GET", path: str = "/sources", body: object = None) -> Answer:
    """A call with a token."""
    return control.call(method, "/api/v1" + path, body, {"Authorization": f"Bearer {text}"})


def test_a_token_is_shown_once(control: Running) -> None:
    """The answer that makes it has its text; the list has its last four characters, the database a digest."""
    id, text = made(control, scope="write")
    (listed,) = control.api("GET", "/tokens").json["items"]
    assert (listed["id"], listed["hint"], listed["scope"], listed["createdBy"]) == (
        id,
        text[-4:],
        "write",
        "admin token",
    )
    assert text[10:-4] not in repr(control_database(control.services).rows("SELECT * FROM tokens"))


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("write", 201), ("admin", 201)])
def test_a_token_does_what_its_scope_allows(control: Running, scope: str, status: int) -> None:
    """Each scope reads; only write and admin change, and the change is put down to the token."""
    _, text = made(control, scope=scope)
    assert call(control, text).status == 200
    assert call(control, text, "POST", body=source()).status == status
    authors = control_database(control.services).rows("SELECT author FROM versions")
    assert authors == ([("token ci",)] if status == 201 else [])


def test_a_revoked_token_opens_nothing(control: Running) -> None:
    """From the answer on; its name may be used again."""
    id, text = made(control)
    assert control.api("POST", "/tokens", {"name": "ci"}).json["code"] == "already_exists"
    assert control.api("DELETE", f"/tokens/{id}").status == 204
    assert call(control, text).status == 401
    assert control.api("DELETE", f"/tokens/{id}").status == 404
    made(control)


def test_an_expired_token_says_so_and_is_on_record(control: Running) -> None:
    """Its time over, it opens nothing, stays listed, and its use is in the audit log, once a minute at most."""
    id, text = made(control, expiresIn="1s")
    assert call(control, text).status == 200
    control_database(control.services).rows("UPDATE tokens SET expires_at = 1, last_used_at = NULL")
    answers = [call(control, text) for _ in range(3)]
    assert [answer.status for answer in answers] == [401] * 3
    assert "has expired" in answers[0].json["detail"]
    assert control.api("GET", f"/tokens/{id}").json["expired"] is True
    (entry,) = control.api("GET", "/audit-log?action=use_expired_token").json["items"]
    assert (entry["actor"], entry["target"]) == ("token ci", "tokens/t1")


def test_use_is_written_down(control: Running) -> None:
    """Whoever tidies up sees when a token was last used."""
    id, text = made(control)
    assert control.api("GET", f"/tokens/{id}").json["lastUsedAt"] is None
    call(control, text)
    assert control.api("GET", f"/tokens/{id}").json["lastUsedAt"] is not None


def test_a_full_disk_shuts_nobody_out(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a token or a session was used may get lost; who comes with one is let in all the same."""
    _, text = made(control)
    key = session_store(control.services).open()
    control_database(control.services).rows("UPDATE sessions SET used_at = used_at - 100000")

    def full() -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(control_database(control.services), "transaction", full)
    assert call(control, text).status == 200
    assert session_store(control.services).is_open(key)


@pytest.mark.parametrize("fields", [{"expiresIn": "soon"}, {"expiresIn": "0s"}, {"expiresIn": "99999d"}])
def test_a_time_that_is_none_is_refused(control: Running, fields: dict[str, str]) -> None:
    """The problem names the field."""
    answer = control.api("POST", "/tokens", {"name": "ci", **fields})
    assert (answer.status, answer.json["errors"][0]["pointer"]) == (422, "/expiresIn")


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_a_name_can_be_read(control: Running, name: str) -> None:
    """Refuse a name of blanks: the audit log puts changes down to it."""
    assert control.api("POST", "/tokens", {"name": name}).status == 422
    assert control.api("GET", "/tokens").json["items"] == []


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
def test_scanners_can_tell_a_token(scope: str) -> None:
    """The prefix and the checksum tell a token with certainty; one changed character spoils it."""
    text = new_token(scope)  # type: ignore[arg-type]  # one of the scopes
    assert re.fullmatch(r"hkt_(read|write|admin)_[0-9A-Za-z]{36}", text)
    assert is_token(text)
    changed = text[:-8] + ("a" if text[-8] != "a" else "b") + text[-7:]
    assert not is_token(changed)
    assert not is_token(text + "x")
    assert not is_token("hk_admin_something")
