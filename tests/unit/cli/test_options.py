"""Options of ``up`` and the roles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hookline.cli.launch import last_launch, read, write
from hookline.cli.service.options import parse
from hookline.cli.service.up import secrets_of
from hookline.settings import SettingsError, environment_name


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder without settings or connections files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_setting_is_a_flag_in_either_spelling() -> None:
    """Dashes and underscores name the same setting."""
    assert parse("up", ["--deliver.retry-max=2s"]).settings.deliver.retry_max == 2.0
    assert parse("up", ["--deliver.retry_max", "3s"]).settings.deliver.retry_max == 3.0
    assert parse("collect", ["--data-dir", "elsewhere"]).settings.data_dir == "elsewhere"


def test_a_flag_wins_over_the_file(empty_folder: Path) -> None:
    """What is given at the start counts before what lies in hookline.yaml."""
    (empty_folder / "hookline.yaml").write_text("service_name: File\ncontrol: {listen: 127.0.0.1:9}\n")
    settings = parse("up", ["--service-name=Flag"]).settings
    assert (settings.service_name, settings.control.listen) == ("Flag", "127.0.0.1:9")


def test_quickstart_allows_receivers_on_this_machine_beside_others() -> None:
    """The first look may send to the loopback addresses, and keeps what was allowed anyway."""
    settings = parse("up", ["--quickstart", "--deliver.allow-networks=10.0.0.0/8"]).settings
    assert settings.deliver.allow_networks == ("10.0.0.0/8", "127.0.0.0/8", "::1/128")


def test_a_connections_file_is_found_or_named_in_the_refusal(empty_folder: Path) -> None:
    """connections.yaml is taken where it lies; one that was asked for must be there."""
    assert parse("up", []).connections is None
    (empty_folder / "connections.yaml").write_text("{}")
    assert parse("up", []).connections == str(empty_folder / "connections.yaml")
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        parse("up", ["--connections", "nowhere.yaml"])


def test_unknown_options_are_wrong_usage() -> None:
    """A typing mistake ends with exit code 2 before anything starts."""
    with pytest.raises(SystemExit) as ended:
        parse("up", ["--colect.listen=127.0.0.1:1"])
    assert ended.value.code == 2


def test_what_was_started_can_be_read_by_roles_and_tools(empty_folder: Path) -> None:
    """The launch file brings the settings to other processes unchanged, readable by the owner only."""
    (empty_folder / "data" / "run").mkdir(parents=True)
    launch = parse("up", ["--data-dir=data", "--deliver.timeout=7s", "--deliver.allow-networks=127.0.0.0/8"])
    write(launch)
    path = empty_folder / "data" / "run" / "launch.json"
    assert read(path).settings.deliver == launch.settings.deliver
    assert last_launch(launch.settings) == read(path)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["environment", "flag", "file"])
def test_no_secret_is_in_the_launch_file(empty_folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """However a secret was given, its roles know it and the file does not; a tool knows what its own shell says."""
    (empty_folder / "data" / "run").mkdir(parents=True)
    secrets = {"control.admin_token": "hk_admin_very-secret", "database.url": "postgresql://u:pass-word@db/x"}
    arguments = ["--data-dir=data"]
    if how == "environment":
        for key, value in secrets.items():
            monkeypatch.setenv(environment_name(key), value)
    elif how == "flag":
        arguments += [f"--{key}={value}" for key, value in secrets.items()]
    else:
        lines = [f"{key.replace('.', ': {', 1)}: '{value}'}}" for key, value in secrets.items()]
        (empty_folder / "hookline.yaml").write_text("\n".join(lines))
    launch = parse("up", arguments)
    write(launch)
    path = empty_folder / "data" / "run" / "launch.json"
    assert not re.search("very-secret|pass-word", path.read_text())
    for name, value in secrets_of(launch.settings).items():
        monkeypatch.setenv(name, value)
    assert read(path).settings.control == launch.settings.control
    assert read(path).settings.database == launch.settings.database
    for key in secrets:
        monkeypatch.delenv(environment_name(key))
    assert read(path).settings.control.admin_token is None
    assert read(path).settings.database.url == "postgresql://u@db/x"
