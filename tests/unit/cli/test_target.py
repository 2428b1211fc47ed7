"""Whom the command line shows a token: its data folder's server that one, another server only what was given for it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from hookline.cli.admin_api import CommandFailed, reason_of
from hookline.cli.launch import Launch, write
from hookline.cli.target import Target
from hookline.settings import load

LOCAL = "the token in the data folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with an admin token, and a shell that names nothing else."""
    monkeypatch.delenv("HOOKLINE_CONTROL_ADMIN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin-token").write_text(LOCAL)
    return tmp_path / "data"


def target(folder: Path, **given: object) -> Target:
    """The options of a command."""
    return Target(data_dir=str(folder), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("api", [None, "http://127.0.0.1:8081", "http://localhost:8081/", "http://[::1]:8081"])
def test_the_local_server_gets_its_own_token(folder: Path, api: str | None) -> None:
    """Left out, or named as this machine's port, the server is the data folder's own."""
    assert target(folder, api=api).admin()._token == LOCAL


@pytest.mark.parametrize(
    "api",
    [
        "https://hookline.example.com",
        "http://127.0.0.1:9999",
        "https://127.0.0.1:8081",
        "http://127.0.0.1.example.com:8081",
    ],
)
def test_another_server_gets_no_local_token(folder: Path, api: str) -> None:
    """Neither the file's nor the settings file's token goes to another server; the sentence says what to do."""
    (folder.parent / "hookline.yaml").write_text("control: {admin_token: another-local-token}")
    with pytest.raises(CommandFailed, match="--token"):
        target(folder, api=api, insecure_http=True).admin()
    assert target(folder, api=api, token="theirs", insecure_http=True).admin()._token == "theirs"


def test_a_line_end_is_no_part_of_a_token(folder: Path) -> None:
    """As secrets in environments have it; a token that can be none is refused without showing it."""
    assert target(folder, token=f"{LOCAL}\n").admin()._token == LOCAL
    for wrong in ("hk_admin_se\ncret", "hk_admin_se\u00e9cret"):
        with pytest.raises(CommandFailed) as refused:
            target(folder, token=wrong).admin()
        assert (refused.value.exit_code, "cret" in str(refused.value)) == (2, False)


@pytest.mark.parametrize("api", ["http://hookline.example.com", "HTTP://192.0.2.7:8081", "http://[2001:db8::1]"])
def test_a_token_goes_over_the_network_encrypted(folder: Path, api: str) -> None:
    """Plain HTTP to another machine is refused unless it is asked for by name."""
    with pytest.raises(CommandFailed, match="--insecure-http"):
        target(folder, api=api, token="theirs").admin()
    assert target(folder, api=api, token="theirs", insecure_http=True).admin()._token == "theirs"


def test_commands_for_a_copy_are_not_for_its_original(folder: Path) -> None:
    """What a server was started with holds for its own folder, by whatever path, and not for a copy of that."""
    settings, _ = load(environment={}, flags={"data_dir": str(folder), "control.listen": "127.0.0.1:9081"})
    (folder / "run").mkdir()
    write(Launch(settings=settings, connections=None))
    link, copy = folder.parent / "link", folder.parent / "copy"
    link.symlink_to(folder)
    shutil.copytree(folder, copy)
    assert target(link).settings().control.listen == "127.0.0.1:9081"
    found = target(copy).settings()
    assert (found.data_path, found.control.listen) == (copy, "127.0.0.1:8081")
    folder.rename(folder.parent / "moved")
    assert target(folder.parent / "moved").settings().data_path == folder.parent / "moved"


@pytest.mark.parametrize(
    "api", ["http://127.0.0.1:abc", "https://hookline.example.com:81x", "https://hookline..example.com", "https://[::1"]
)
def test_what_is_no_address_is_refused_with_one_that_is(folder: Path, api: str) -> None:
    """As wrong use, whichever way the server is asked."""
    admin = target(folder, api=api, token="theirs").admin()
    for ask in (lambda: admin.get("/sources"), lambda: admin.open("/events/stream", {}, 1.0)):
        with pytest.raises(
            CommandFailed, match=f"{re.escape(api)}.* is no address .*write one as http://127.0.0.1:8081"
        ) as refused:
            ask()
        assert refused.value.exit_code == 2


def test_a_file_of_somebody_else_is_named_with_what_to_do() -> None:
    """Other errors have a sentence of their own."""
    refused = PermissionError(13, "Permission denied", "/var/lib/hookline/parts")
    assert reason_of(refused) == (
        "cannot use /var/lib/hookline/parts: Permission denied; run this as the owner of the data folder"
    )
    assert reason_of(OSError("the disk is full: make room")) == "the disk is full: make room"
