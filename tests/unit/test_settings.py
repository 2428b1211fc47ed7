"""Settings: how they are written, where they come from, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.settings import (
    Bytes,
    Seconds,
    Settings,
    SettingsError,
    environment_name,
    keys,
    load,
    parse_duration,
    parse_listen,
    parse_size,
    value_of,
)


def from_environment(**variables: str) -> Settings:
    """The settings with nothing but these variables set."""
    return load(environment=variables)[0]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file of the working folder is picked up."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("5s", 5),
        ("10m", 600),
        ("4h", 14_400),
        ("30d", 2_592_000),
        (" 1.5 h ", 5_400),
        ("7", 7),
        (3, 3),
    ],
)
def test_durations(text: str | int, seconds: float) -> None:
    """A number with a unit, or bare seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5 parsecs", "-1s", "1s2", "s", "1,5s", "∞", True])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with examples of what to write."""
    with pytest.raises(ValueError, match="250ms"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("512", 512), ("64KB", 65_536), ("2gb", 2 * 1024**3), ("1.5MB", 1_572_864), ("1TB", 1024**4), ("9 B", 9), (7, 7)],
)
def test_sizes(text: str | int, count: int) -> None:
    """A number with a unit of 1024, or bare bytes."""
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "2 GiB", "-1", "many", "1e9", False])
def test_what_is_no_size(text: str) -> None:
    """Anything else is refused with examples of what to write."""
    with pytest.raises(ValueError, match="64KB"):
        parse_size(text)


def test_listen_addresses() -> None:
    """Host and port, IPv6 in brackets, port 0 for any."""
    assert parse_listen("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert parse_listen("[::1]:0") == ("::1", 0)
    for wrong in ("localhost", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:http"):
        with pytest.raises(ValueError, match=r"127\.0\.0\.1:8080"):
            parse_listen(wrong)


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("127.0.0.0/8, ::1", ("127.0.0.0/8", "::1/128")),
        ('["10.0.0.0/8"]', ("10.0.0.0/8",)),
        ("10.1.2.3/8", ("10.0.0.0/8",)),
        ("", ()),
        ("[]", ()),
        (" , ", ()),
    ],
)
def test_lists_in_the_environment(text: str, networks: tuple[str, ...]) -> None:
    """Comma-separated or a JSON array; empty or [] is none."""
    assert from_environment(HOOKLINE_DELIVER_ALLOW_NETWORKS=text).deliver.allow_networks == networks


def test_precedence(tmp_path: Path) -> None:
    """Flag over environment over file over default, and each value says where it came from."""
    path = tmp_path / "mine.yaml"
    path.write_text("service_name: File\nlog: {format: text}\ndeliver: {timeout: 2s, retry_first: 3s}\n")
    environment = {"HOOKLINE_DELIVER_TIMEOUT": "1s", "HOOKLINE_SERVICE_NAME": "Environment"}
    settings, origins = load(path, environment, {"service_name": "Flag", "log.format": None})
    assert settings.service_name == "Flag"
    assert (settings.deliver.timeout, settings.deliver.retry_first) == (Seconds(1), Seconds(3))
    sources = {origin.key: origin.source for origin in origins}
    assert sources["service_name"] == "flag"
    assert sources["deliver.timeout"] == "env HOOKLINE_DELIVER_TIMEOUT"
    assert sources["log.format"] == f"file {path}"
    assert sources["deliver.retry_max"] == "default"


def test_the_file_of_the_working_folder_is_read(tmp_path: Path) -> None:
    """Without --config, hookline.yaml is taken where it exists."""
    assert load(environment={})[0].service_name == "Hookline"
    (tmp_path / "hookline.yaml").write_text("service_name: Here")
    assert load(environment={})[0].service_name == "Here"


def test_every_key_can_come_from_the_environment() -> None:
    """Each key has its variable, no two share one, and its default can be written there."""
    names = [environment_name(key) for key in keys()]
    assert len(set(names)) == len(names)
    assert {"HOOKLINE_DATA_DIR", "HOOKLINE_DELIVER_RETRY_WINDOW", "HOOKLINE_CONTROL_ADMIN_TOKEN"} <= set(names)
    for key in keys():
        value = value_of(Settings(), key)
        text = "" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else str(value)
        text = ", ".join(value) if isinstance(value, tuple) else text
        assert value_of(from_environment(**{environment_name(key): text}), key) == value


def test_defaults_are_those_of_the_design() -> None:
    """The numbers that docs/reference/settings.md lists."""
    settings = Settings()
    assert settings.deliver.timeout == Seconds(5)
    assert (settings.deliver.retry_first, settings.deliver.retry_max) == (Seconds(1), Seconds(600))
    assert settings.deliver.retry_window == Seconds(4 * 3600)
    assert (settings.dedup.window, settings.dedup.bytes) == (Seconds(86_400), Bytes(2 * 1024**3))
    assert (settings.retention.events, settings.retention.bytes) == (Seconds(30 * 86_400), Bytes(20 * 1024**3))
    assert (settings.plan.level, settings.plan.grandfathered) == ("business", False)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("deliver.timout", "deliver.timeout"), ("servicename", "service_name"), ("retention.event", "retention.events")],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, key: str, nearest: str) -> None:
    """In the file as in the environment, a typing error is told with what was probably meant."""
    with pytest.raises(SettingsError, match=f"did you mean '{nearest}'"):
        load(environment={}, flags={key: "1"})
    with pytest.raises(SettingsError, match=f"did you mean '{environment_name(nearest)}'"):
        from_environment(**{environment_name(key): "1"})


def test_variables_that_are_no_settings() -> None:
    """Secrets of connections are not taken for misspelt settings, and neither is what belongs to others."""
    assert from_environment(HOOKLINE_SECRET_CRM="x", HOME="/", HOOKLINES="y") == Settings()
    assert from_environment(HOOKLINE_CLIENT_WRITE_KEY="wk", HOOKLINE_CLIENT_DEBUG="true") == Settings()
    assert from_environment(HOOKLINE_TRACEBACK="1") == Settings()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("deliver.timeout", "soon", "deliver.timeout"),
        ("deliver.timeout", "0s", "above zero"),
        ("dedup.bytes", "lots", "64KB"),
        ("deliver.allow_networks", "10.0.0.0/99", "deliver.allow_networks"),
        ("deliver.allow_networks", "[", "deliver.allow_networks"),
        ("plan.level", "gold", "free, team, business"),
        ("plan.grandfathered", "perhaps", "true or false"),
        ("collect.listen", "nowhere", "collect.listen"),
        ("collect.public_url", "events.example.com", "such as https://events"),
        ("collect.public_url", "https://events.example.com/?a=b", "such as https://events"),
        ("journal.partitions", "0", "1 to 1024"),
        ("journal.partitions", "two", "whole number"),
        ("tracing.ratio", "many", "a number"),
        ("retention.events", "0", "above zero"),
        ("retention.bytes", "0", "above zero"),
        ("retention.events", "36501d", "to 36500d"),
        ("retention.bytes", "9999999TB", "to 1048576TB"),
        ("service_name", "a b", "service_name"),
        ("service_name", "x\r\ny", "service_name"),
    ],
)
def test_a_value_that_cannot_be_used(key: str, value: str, says: str) -> None:
    """The error has a stable code, names the key and says what to write."""
    with pytest.raises(SettingsError, match=says) as refused:
        load(environment={environment_name(key): value})
    assert refused.value.code == "invalid_settings"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "a: b: c",
        "data_dir: 2026-13-45",
        "data_dir: !!int x",
        "data_dir: \0",
        "control: {admin_token: hush: hush}",
        "control: {admin_token: *hush}",
        "control: {admin_token: !hush x}",
        "control:\n  admin_token: 'hush\n",
        "control:\n  admin_token: hush\n :hush",
    ],
)
def test_a_file_that_is_not_yaml(tmp_path: Path, text: str) -> None:
    """The error names the file, and shows nothing of what may be a secret."""
    (tmp_path / "hookline.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"hookline\.yaml") as refused:
        load(environment={})
    assert "hush" not in str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The error says how to save it."""
    (tmp_path / "hookline.yaml").write_bytes(b"service_name: \xff")
    with pytest.raises(SettingsError, match="UTF-8"):
        load(environment={})


def test_a_section_may_be_empty(tmp_path: Path) -> None:
    """As when all its lines are comments; one that is not known is refused all the same."""
    (tmp_path / "hookline.yaml").write_text("deliver:\n  # timeout: 10s\nservice_name: Here\n")
    assert load(environment={})[0] == Settings(service_name="Here")
    (tmp_path / "hookline.yaml").write_text("delivery:\n")
    with pytest.raises(SettingsError, match="unknown setting 'delivery'"):
        load(environment={})


@pytest.mark.parametrize(
    "text",
    [
        "retention: {events: -5}",
        "retention: {bytes: -1}",
        "deliver: {retry_window: .inf}",
        "dedup: {window: .nan}",
        "journal: {partitions: 2.9}",
        "journal: {partitions: true}",
        "deliver: {allow_networks: 3}",
        "people: {search_traits: {email: yes}}",
        "data_dir:",
    ],
)
def test_what_a_file_holds_is_checked_like_text(tmp_path: Path, text: str) -> None:
    """Numbers and other values of YAML are held to what may be written in the environment."""
    (tmp_path / "hookline.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"setting '.*': write "):
        load(environment={})


@pytest.mark.parametrize("text", ["- a", "just text", "deliver: [1]", "deliver: 5"])
def test_a_file_of_the_wrong_shape(tmp_path: Path, text: str) -> None:
    """YAML that holds something else than sections of settings is refused, not a crash."""
    (tmp_path / "hookline.yaml").write_text(text)
    with pytest.raises(SettingsError):
        load(environment={})


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """A file asked for by name must be there."""
    with pytest.raises(SettingsError, match="cannot read"):
        load(tmp_path / "gone.yaml", {})


def test_a_database_that_cannot_be_used_is_refused() -> None:
    """Rather than left unused, as if everything were kept there."""
    with pytest.raises(SettingsError, match=r"database\.url.*write local"):
        from_environment(HOOKLINE_DATABASE_URL="mysql://db/hookline")


@pytest.mark.parametrize(
    "written",
    [
        "events=100,bytes=1MB,burst=10s",
        '{"events": 100, "bytes": "1MB", "burst": "10s"}',
        {"events": 100, "bytes": "1MB", "burst": "10s"},
    ],
)
def test_rate_limits(written: object) -> None:
    """The same limit from the environment in two forms and from a file."""
    limit = load(environment={}, flags={"collect.rate_limit": written})[0].collect.rate_limit
    assert limit is not None
    assert limit.bounds() == (100, 1024 * 1024, 10)


@pytest.mark.parametrize("written", ["100", "events=x", "events=0", "burst=10s", "bytes=5GB", '{"events":', "evnts=5"])
def test_wrong_rate_limits(written: str) -> None:
    """What is no rate limit is refused with the key and what to write."""
    with pytest.raises(SettingsError, match=r"collect.rate_limit.*write"):
        from_environment(HOOKLINE_COLLECT_RATE_LIMIT=written)
