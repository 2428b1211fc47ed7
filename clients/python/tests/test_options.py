"""Every option: default, environment, what is refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hookline_client import InvalidOption, Options
from hookline_client.errors import CODES
from hookline_client.option_values import OptionValues
from hookline_client.options import NOT_IN_ENVIRONMENT, environment_name, resolve
from hookline_client.testing import RecordingTransport

README = Path(__file__).parents[1] / "README.md"
OTHERS: dict[str, Any] = {
    "endpoint": "https://events.example.com",
    "consumer": "file",
    "size": 7,
    "flush_at": 7,
    "flush_after": 2.5,
    "debug": True,
    "ssl": False,
    "max_queue_size": 50,
    "batch_size": 30,
    "timeout": 3.0,
    "filename": "/var/log/app/events.log",
    "max_queue_bytes": 1000,
    "spool": "/var/lib/app/spool",
    "spool_bytes": 5_000,
    "on_full": "drop_old",
    "block_timeout": 0.5,
    "gzip": True,
    "max_retries": 3,
    "retry_seconds": 60.0,
    "ca_file": __file__,
    "before_send_failure": "pass",
    "default_context": {"app": "shop"},
    "default_integrations": {"All": False},
    "enabled": False,
    "receipts": True,
    "strict": True,
    "exit_timeout": 0.5,
}
"""A value for each that is not its default."""


def test_defaults_are_those_of_the_specification() -> None:
    """Every option, one by one."""
    options = resolve("wk", {}, {})
    assert (options.size, options.flush_at, options.flush_after) == (20, 20, 5.0)
    assert (options.consumer, options.debug, options.error_handler) == ("background", False, None)
    assert (options.max_queue_size, options.batch_size) == (10_000, 100)
    assert options.filename == "/tmp/analytics.log"
    assert resolve("wk", {"consumer": "socket"}, {}).timeout_seconds == 0.5
    assert options.timeout_seconds == 10.0
    assert resolve("wk", {"endpoint": "example.com"}, {}).address.tls
    assert not resolve("wk", {"endpoint": "example.com", "ssl": False}, {}).address.tls


@pytest.mark.parametrize("name", ["filename", "ca_file", "spool"])
def test_a_path_is_about_the_folder_in_which_the_client_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon is in another one when it uses the path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "release" / "current").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "release" / "current")
    (tmp_path / "release" / "here").touch()
    path = getattr(resolve("wk", {name: "link/../here"}, {}), name)
    assert (os.path.isabs(path), os.path.realpath(path)) == (True, os.path.realpath(tmp_path / "release" / "here"))


def test_the_table_of_the_readme_is_the_options() -> None:
    """Every option has a row with its default and its variable, in their order."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| .+ \|$", README.read_text(), re.MULTILINE)
    expected = []
    for name in Options._fields:
        default = Options._field_defaults[name]
        shown = "none" if default is None or default == "" else f"`{default}`"
        variable = "" if name in NOT_IN_ENVIRONMENT else f"`{environment_name(name)}`"
        expected.append((name, shown, variable or "none"))
    assert rows == expected


def test_the_codes_of_the_readme_are_the_codes() -> None:
    """Every code that a handler or an exception can have, with its sentence."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", README.read_text(), re.MULTILINE)
    assert dict(rows) == CODES


def test_every_code_in_the_sources_is_listed() -> None:
    """Whatever is raised or reported has its sentence in one place."""
    sources = "".join(path.read_text() for path in (README.parent / "src").rglob("*.py"))
    used = re.findall(
        r'(?:Invalid\w+|NotQueued|dropped|gave_up|invalid|report|Answer)\((?:[^()"\n]+, )?"(\w+)"', sources
    )
    assert len(used) > 10
    assert set(used) <= set(CODES)


def test_the_typed_names_are_the_options() -> None:
    """What a type checker accepts is what there is, apart from the write key, which comes first."""
    assert set(OptionValues.__annotations__) == set(Options._fields) - {"write_key"}
    assert set(OTHERS) == set(Options._fields) - NOT_IN_ENVIRONMENT - {"write_key"}


@pytest.mark.parametrize("name", OTHERS)
def test_every_option_can_be_set_in_the_environment(name: str) -> None:
    """As a string; an option given in code wins."""
    value = OTHERS[name]
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    environment = {environment_name(name): text, "HOOKLINE_CLIENT_WRITE_KEY": "wk_env"}
    options = resolve(None, {}, environment)
    assert getattr(options, name) == value
    assert options.write_key == "wk_env"
    assert resolve("wk", {name: value}, {environment_name(name): "rubbish" if name == "filename" else text}) == (
        resolve("wk", {name: value}, {})
    )


@pytest.mark.parametrize("name", ["flush_at", "flush_after", "debug", "default_context", "consumer"])
def test_what_the_environment_cannot_mean_is_named(name: str) -> None:
    """The variable, not only the value."""
    with pytest.raises(InvalidOption, match=f"{environment_name(name)}|{name} must"):
        resolve("wk", {}, {environment_name(name): "rubbish"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush_at", 0),
        ("flush_at", 2.0),
        ("size", "20"),
        ("flush_after", 0),
        ("flush_after", float("nan")),
        ("batch_size", 2501),
        ("max_queue_size", True),
        ("max_retries", -1),
        ("timeout", 0),
        ("exit_timeout", -1),
        ("consumer", "carrier_pigeon"),
        ("on_full", "panic"),
        ("before_send_failure", "raise"),
        ("debug", 1),
        ("endpoint", "ftp://example.com"),
        ("ca_file", 1),
        ("ca_file", "/no/such/file.pem"),
        ("default_context", [1]),
        ("error_handler", "print"),
        ("before_send", {}),
        ("transport", object()),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: Any) -> None:
    """When the client is made, with the option and the value in the sentence."""
    with pytest.raises(InvalidOption, match=name):
        resolve("wk", {name: value}, {})


def test_an_unknown_option_names_the_nearest() -> None:
    """A typing mistake does not pass silently."""
    with pytest.raises(InvalidOption, match="did you mean flush_at"):
        resolve("wk", {"flush_att": 1}, {})


def test_size_and_flush_at_are_one() -> None:
    """Either sets both; of two the smaller counts, so that 1 always means every call."""
    assert resolve("wk", {"flush_at": 100}, {}).size == 100
    assert resolve("wk", {"size": 50}, {}).flush_at == 50
    assert resolve("wk", {"size": 50, "flush_at": 1}, {}).size == 1


def test_size_in_code_wins_over_flush_at_in_the_environment() -> None:
    """And the other way round: they are one option, and code wins."""
    assert resolve("wk", {"flush_at": 100}, {"HOOKLINE_CLIENT_SIZE": "5"}).flush_at == 100
    assert resolve("wk", {"size": 100}, {"HOOKLINE_CLIENT_FLUSH_AT": "5"}).flush_at == 100
    assert resolve("wk", {"size": None}, {"HOOKLINE_CLIENT_FLUSH_AT": "5"}).flush_at == 5


def test_the_write_key_is_not_shown() -> None:
    """Neither with the options, which end up in reports of exceptions, nor when it is refused."""
    shown = repr(resolve("wk_secret", {"flush_at": 7}, {}))
    assert "wk_secret" not in shown
    assert "flush_at=7" in shown
    with pytest.raises(InvalidOption, match="must be a string, not this bytes") as raised:
        resolve(None, {"write_key": b"wk_secret"}, {})
    assert "wk_secret" not in str(raised.value)


@pytest.mark.parametrize("key", ["wk_secret\n", "wk_\udce4secret"])
def test_a_write_key_with_a_line_end_is_refused(key: str) -> None:
    """Read from a file, and never the key of any source; it would be refused for every event."""
    with pytest.raises(InvalidOption, match="write_key") as raised:
        resolve(key, {}, {})
    assert "secret" not in str(raised.value)


def test_none_means_not_given() -> None:
    """Programs pass options on that they may not have."""
    assert resolve("wk", {"timeout": None, "endpoint": None, "transport": None}, {}) == resolve("wk", {}, {})


def test_the_timeout_can_be_given() -> None:
    """For every consumer."""
    assert resolve("wk", {"timeout": 2}, {}).timeout_seconds == 2
    assert resolve("wk", {"timeout": 2, "consumer": "socket"}, {}).timeout_seconds == 2


def test_a_consumer_may_be_a_function() -> None:
    """And a transport an object."""
    transport = RecordingTransport()
    options = resolve("wk", {"consumer": lambda options, ledger: None, "transport": transport}, {})
    assert callable(options.consumer)
    assert options.transport is transport
