"""Secrets: references resolved, masked, refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.connections.secrets import SecretMissing, check_secret, mask, resolve, resolve_all
from hookline.settings import Secrets, Settings
from tests.unit.connections.examples import destination


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of secrets."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "crm").write_text("from-file\n")
    return folder


@pytest.fixture
def settings(folder: Path) -> Settings:
    """Settings that name the folder."""
    return Settings(secrets=Secrets(dir=str(folder)))


def test_a_secret_is_itself_or_what_it_refers_to(settings: Settings) -> None:
    """Plain text stands for itself, a reference for the variable or for the file without its last line end."""
    environment = {"HOOKLINE_SECRET_CRM": "from-env"}
    values = ["plain", "env:HOOKLINE_SECRET_CRM", "file:crm"]
    assert [resolve(value, settings, environment) for value in values] == ["plain", "from-env", "from-file"]


@pytest.mark.parametrize(
    "value",
    [
        "env:HOME",
        "env:HOOKLINE_SECRET_",
        "env:HOOKLINE_CONTROL_ADMIN_TOKEN",
        "env:",
        "file:",
        "file:../crm",
        "file:a/b",
        "file:/etc/passwd",
        "file:.hidden",
        "file:..",
        "file:a\n",
        "",
        "x" * 4_097,
    ],
)
def test_what_can_be_no_secret(value: str, settings: Settings) -> None:
    """Only the own variables and plain names in the folder may be read; checking says so, and so does resolving."""
    with pytest.raises(ValueError, match=r"secret|file|environment"):
        check_secret(value)
    if value.startswith(("env:", "file:")):
        with pytest.raises(SecretMissing):
            resolve(value, settings, {"HOME": "/root", "HOOKLINE_CONTROL_ADMIN_TOKEN": "token"})


@pytest.mark.parametrize("value", ["s3cret", "env:HOOKLINE_SECRET_A1", "file:crm.v2_x-y", "environment", "keep"])
def test_what_can_be_a_secret(value: str) -> None:
    """Ordinary secrets and well-formed references pass, whether or not they lead somewhere."""
    check_secret(value)


def test_a_reference_that_leads_nowhere(settings: Settings, folder: Path) -> None:
    """A variable or file that is missing or empty is named, with what to do."""
    (folder / "empty").write_text("\n")
    for value in ("env:HOOKLINE_SECRET_X", "file:missing", "file:empty"):
        with pytest.raises(SecretMissing, match=value.partition(":")[2]):
            resolve(value, settings, {"HOOKLINE_SECRET_X": ""})
    with pytest.raises(SecretMissing, match=r"secrets\.dir"):
        resolve("file:crm", Settings(), {})


def test_a_link_out_of_the_folder_is_not_followed(settings: Settings, folder: Path, tmp_path: Path) -> None:
    """Links within the folder work, as orchestrators mount secrets; one that leads out does not."""
    (tmp_path / "outside").write_text("not yours")
    (folder / "outside").symlink_to(tmp_path / "outside")
    (folder / "inside").symlink_to(folder / "crm")
    assert resolve("file:inside", settings) == "from-file"
    with pytest.raises(SecretMissing, match=r"out of secrets\.dir"):
        resolve("file:outside", settings)


def test_a_file_that_is_no_secret(settings: Settings, folder: Path) -> None:
    """A folder, a pipe, a ring of links, a huge file and bytes that are no text are refused and hang nothing."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "huge").write_bytes(b"x" * 5_000)
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "ring").symlink_to(folder / "ring")
    for name in ("folder", "pipe", "huge", "bytes", "ring"):
        with pytest.raises(SecretMissing):
            resolve(f"file:{name}", settings)


def test_a_mask_shows_the_end_of_a_long_secret_only() -> None:
    """Four characters help people to recognise a secret; of a short one they would give away too much."""
    assert mask("abcdefghijklmnop") == "…mnop"
    assert mask("s3cret") == "…"
    assert mask("env:HOOKLINE_SECRET_CRM") == "env:HOOKLINE_SECRET_CRM"


def test_a_destination_is_resolved_whole(settings: Settings) -> None:
    """Shared secret and header values may be references; the sender gets the secrets."""
    wanted = destination(secret="file:crm", headers={"Authorization": "file:crm", "X-Plain": "as is"})
    resolved = resolve_all(wanted, settings, now_ms=0).settings
    assert resolved.shared_secret == "from-file"
    assert resolved.webhooks[0].headers == {"Authorization": "from-file", "X-Plain": "as is"}


def test_a_secret_that_would_break_a_header_is_not_sent(settings: Settings, folder: Path) -> None:
    """A line break in a secret's file cannot add a header to the request."""
    (folder / "evil").write_text("x\r\nX-Evil: 1")
    with pytest.raises(SecretMissing, match="crm cannot be sent"):
        resolve_all(destination(headers={"Authorization": "file:evil"}), settings, now_ms=0)
