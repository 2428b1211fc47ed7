"""Who may call the admin API."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hookline.api.auth import admin_token
from hookline.api.auth.admin_token import AdminToken, AdminTokenError
from hookline.api.auth.service import session_store
from hookline.settings import Control, Settings
from tests.unit.control.running import BEARER, TOKEN, Running


def test_the_right_token_is_let_in(asked: Running) -> None:
    """The bearer token opens the API; the scheme's name is not case-sensitive."""
    assert asked.api("GET", "/sources").status == 200
    assert asked.call("GET", "/api/v1/sources", headers={"Authorization": f"bearer {TOKEN}"}, token=False).status == 200


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"]
)
def test_anything_else_is_refused(asked: Running, authorization: str) -> None:
    """Without exactly the token every API route answers 401 with a challenge and a problem."""
    headers = {"Authorization": authorization} if authorization else {}
    answer = asked.call("GET", "/api/v1/sources", headers=headers, token=False)
    assert (answer.status, answer.json["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def sign_in(control: Running) -> dict[str, str]:
    """The cookie header of a new session."""
    cookie = session_store(control.services).cookie_name
    return {"Cookie": f"{cookie}={session_store(control.services).open()}"}


def test_a_session_reads(asked: Running) -> None:
    """A signed-in browser may read the API, which the pages do."""
    assert asked.call("GET", "/api/v1/sources", headers=sign_in(asked), token=False).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_a_session_writes_only_from_our_own_pages(control: Running, headers: dict[str, str], status: int) -> None:
    """What another site makes a signed-in browser send changes nothing (CSRF)."""
    body = {"id": "site", "name": "Site"}
    answer = control.call("POST", "/api/v1/sources", body, {**sign_in(control), **headers}, token=False)
    assert answer.status == status
    assert (control.services.store.source("site") is not None) == (status == 201)


def test_own_origin_counts_without_fetch_metadata(control: Running) -> None:
    """On plain http to another host browsers send only Origin; ours is accepted."""
    headers = {**sign_in(control), "Origin": f"http://127.0.0.1:{control.port}"}
    assert control.call("POST", "/api/v1/sources", {"id": "a", "name": "A"}, headers, token=False).status == 201


def test_a_token_is_made_up_once_and_kept_private(tmp_path: Path) -> None:
    """Without a configured token the data folder gets one: unguessable, mode 0600, the same at every start."""
    settings = Settings(data_dir=str(tmp_path))
    token = admin_token.load(settings)
    path = tmp_path / "admin-token"
    kept = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept.startswith("hk_admin_")
    assert len(kept) >= 50
    assert token.matches(kept)
    assert admin_token.load(settings).matches(kept)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_configured_token_counts(tmp_path: Path, end: str) -> None:
    """A token in the settings is used and nothing is written; a line end behind it is no part of it."""
    settings = Settings(data_dir=str(tmp_path), control=Control(admin_token=TOKEN + end))
    assert admin_token.load(settings).matches(TOKEN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", ["", "x" * 513, "nicht-ascii-täuschend-lang", "two-lines-of\na-token"])
def test_an_unusable_token_is_refused(token: str) -> None:
    """A token that lets everybody in, or could never be sent, is an error that says so."""
    with pytest.raises(AdminTokenError, match="at most 512 ASCII"):
        AdminToken(token)


def test_a_short_token_is_taken_with_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """Somebody's own short token works, and the log says that it may be guessed."""
    assert AdminToken("short").matches("short")
    assert "admin_token_short" in "".join(capfd.readouterr())


def test_an_emptied_token_file_is_not_an_empty_token(tmp_path: Path) -> None:
    """An empty token file stops the start instead of letting everybody in."""
    (tmp_path / "admin-token").write_text("\n")
    with pytest.raises(AdminTokenError, match="delete it"):
        admin_token.load(Settings(data_dir=str(tmp_path)))


def test_nothing_secret_without_the_token(control: Running) -> None:
    """What is open (probes, metrics, API description) names no source, destination or key."""
    control.api("POST", "/sources", {"id": "hush", "name": "Hush", "writeKeys": ["wk_hush"]})
    for path in ("/healthz", "/readyz", "/metrics", "/api/openapi.json", "/login"):
        answer = control.call("GET", path, token=False)
        assert answer.status == 200, path
        assert b"hush" not in answer.body, path
    assert BEARER["Authorization"].encode() not in answer.body
