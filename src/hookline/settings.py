"""All settings with their defaults, where they may come from, and how they are written.

docs/reference/settings.md lists the keys. Precedence: command line flag, then environment, then ``hookline.yaml``, then
the default below. Fixed limits live beside the code that enforces them; only what a person may change is here.
"""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from keyword import iskeyword
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from hookline.rate_limit import RateLimit, parse_rate_limit
from hookline.setting_values import (
    DAY_SECONDS,
    Bytes,
    Names,
    Networks,
    Seconds,
    Urls,
    parse_as,
    parse_duration,
    parse_listen,
    parse_size,
)

__all__ = [
    "DAY_SECONDS",
    "SECRET_KEYS",
    "Bytes",
    "Origin",
    "Seconds",
    "Settings",
    "SettingsError",
    "environment_name",
    "keys",
    "load",
    "may_enter_folder",
    "parse_duration",
    "parse_listen",
    "parse_size",
    "value_of",
]

_OWN_DESCRIPTORS = Path("/proc/self/fd")
SOCKET_PATH_BYTES_MAX = 100
NOTICE_WEBHOOKS_MAX = 5
DRAIN_DELAY_SECONDS_MAX = 300.0


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the key and what to write instead."""

    code = "invalid_settings"


class Collect(msgspec.Struct, frozen=True, kw_only=True):
    """The public collection API."""

    listen: str = "127.0.0.1:8080"
    public_url: str | None = None
    trusted_proxies: Networks = Networks(())
    proxy_protocol: bool = False
    idle_timeout: Seconds = Seconds(620.0)
    drain_delay: Seconds = Seconds(0.0)
    refused_body_max: Bytes = Bytes(16 * 1024**2)
    rate_limit: RateLimit | None = None
    rate_limit_per_address: RateLimit | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The admin API and the pages."""

    listen: str = "127.0.0.1:8081"
    public_url: str | None = None
    idle_timeout: Seconds = Seconds(620.0)
    admin_token: str | None = None
    proxy_protocol: bool = False


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """The store of accepted events: ``local`` or ``kafka://host:port,…/topic``, and how its brokers are met."""

    url: str = "local"
    partitions: int = 1
    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    tls_key_password: str | None = None
    sasl_mechanism: Literal["none", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "none"
    sasl_username: str | None = None
    sasl_password: str | None = None

    @property
    def is_local(self) -> bool:
        """Return whether accepted events are in the data folder."""
        return self.url == "local"


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """The store of everything else: ``local`` (SQLite files) or ``postgresql://…``."""

    url: str = "local"

    @property
    def is_local(self) -> bool:
        """Return whether everything else is in the data folder."""
        return self.url == "local"


class Deliver(msgspec.Struct, frozen=True, kw_only=True):
    """Say how webhook requests are sent, and how long they are tried again."""

    timeout: Seconds = Seconds(5.0)
    retry_first: Seconds = Seconds(1.0)
    retry_max: Seconds = Seconds(600.0)
    retry_window: Seconds = Seconds(4 * 3600.0)
    allow_networks: Networks = Networks(())
    ca_file: str | None = None
    proxy: str | None = None
    connection_age: Seconds = Seconds(60.0)
    session_timeout: Seconds = Seconds(10.0)


class Dedup(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which a repeated messageId is recognised."""

    window: Seconds = Seconds(DAY_SECONDS)
    bytes: Bytes = Bytes(2 * 1024**3)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The time and size that the journal keeps; whichever limit is reached first."""

    events: Seconds = Seconds(30 * DAY_SECONDS)
    bytes: Bytes = Bytes(20 * 1024**3)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which plan the installation is on: filters need the level business."""

    level: Literal["free", "team", "business"] = "business"
    grandfathered: bool = False


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """The folder in which ``file:NAME`` references of the connections file are looked up."""

    dir: str | None = None


class Notices(msgspec.Struct, frozen=True, kw_only=True):
    """Notices about the system: thresholds, and where they are sent. A threshold of 0 turns its notices off."""

    webhooks: Urls = Urls(())
    secret: str | None = None
    breaker_open: Seconds = Seconds(60.0)
    dead_letters: int = 100
    rejected_events: int = 100
    backlog_age: Seconds = Seconds(3_600.0)
    group_window: Seconds = Seconds(60.0)
    recovered_after: Seconds = Seconds(120.0)
    retention_ahead: Seconds = Seconds(DAY_SECONDS)
    source_silent: Seconds = Seconds(DAY_SECONDS)
    partition_unowned: Seconds = Seconds(60.0)
    disk_free: Bytes = Bytes(1024**3)


class Smtp(msgspec.Struct, frozen=True, kw_only=True):
    """The mail server that notifications are sent by e-mail with, and the address they come from."""

    url: str | None = None
    from_: str | None = None


class People(msgspec.Struct, frozen=True, kw_only=True):
    """The traits that people can be searched for by, beside their ids."""

    search_traits: Names = Names(("email", "name", "firstName", "lastName", "username", "company"))


class Tracing(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenTelemetry collector that spans are sent to, and the share of calls to trace whose sender does not say."""

    endpoint: str | None = None
    ratio: float = 0.01


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """Log lines: coloured text in a terminal, one JSON object per line elsewhere, or forced."""

    format: Literal["auto", "text", "json"] = "auto"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of one installation."""

    service_name: str = "Hookline"
    data_dir: str = "./hookline-data"
    collect: Collect = Collect()
    control: Control = Control()
    journal: Journal = Journal()
    database: Database = Database()
    deliver: Deliver = Deliver()
    dedup: Dedup = Dedup()
    retention: Retention = Retention()
    plan: Plan = Plan()
    secrets: Secrets = Secrets()
    notices: Notices = Notices()
    smtp: Smtp = Smtp()
    people: People = People()
    tracing: Tracing = Tracing()
    log: Log = Log()

    @property
    def data_path(self) -> Path:
        """Return the data folder as an absolute path."""
        return Path(self.data_dir).expanduser().absolute()

    @property
    def is_shared(self) -> bool:
        """Return whether many processes of a role share the work: with a journal on Kafka, and PostgreSQL."""
        return not (self.journal.is_local or self.database.is_local)

    def socket_path(self, name: str) -> Path:
        """Return where a local socket of this installation is: in ``run/`` of the data folder.

        The system takes about 100 bytes of a socket's path. For a deeper data folder it is a path by way of this
        process's own descriptor of ``run/``, which leads to the same file; where there are no such paths, it is in a
        folder of this user's in the temporary directory, named after the data folder.
        """
        path = self.data_path / "run" / name
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            return path
        if _OWN_DESCRIPTORS.is_dir():
            return _by_descriptor(path.parent) / name
        mark = blake2b(os.fsencode(self.data_path), digest_size=8).hexdigest()
        folder = Path(tempfile.gettempdir()) / f"hookline-{os.getuid()}-{mark}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise SettingsError(f"{folder} is not ours: remove it, or use a data_dir with a shorter path")
        folder.chmod(0o700)
        return folder / name


@cache
def _by_descriptor(folder: Path) -> Path:
    """Return a short path to a folder, for this process as long as it lives."""
    return _OWN_DESCRIPTORS / str(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


SECRET_KEYS = (
    "control.admin_token",
    "journal.tls_key_password",
    "journal.sasl_password",
    "notices.secret",
    "smtp.url",
    "deliver.proxy",
)
"""Settings whose values are shown to nobody."""


class Origin(msgspec.Struct, frozen=True):
    """The origin of the value of one key: ``flag``, ``env NAME``, ``file PATH`` or ``default``."""

    key: str
    value: Any
    source: str


def load(
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> tuple[Settings, list[Origin]]:
    """Read the settings: flags over environment over file over defaults.

    ``config`` None means ``./hookline.yaml`` where it exists and may be looked for. ``flags`` maps dotted keys to
    values; None values are ignored. Raise SettingsError naming the key for anything unknown or unreadable.
    """
    environment = os.environ if environment is None else environment
    values = _from_file(config)
    values.update(_from_environment(environment))
    values.update({key: (value, "flag") for key, value in (flags or {}).items() if value is not None})
    known = keys()
    origins: list[Origin] = []
    parsed: dict[str, Any] = {}
    for key, (raw, source) in values.items():
        if key not in known:
            raise SettingsError(f"unknown setting {key!r} ({source}){_nearest(key, known)}")
        parsed[key] = _parse(key, raw, known[key])
    settings = _build(parsed)
    _validate(settings)
    for key in known:
        source = values[key][1] if key in values else "default"
        origins.append(Origin(key, value_of(settings, key), source))
    return settings, origins


@cache
def keys() -> Mapping[str, Any]:
    """Return every dotted key with its type, in the order of the reference."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(Settings).items():
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found.update({f"{name}.{field.rstrip('_')}": inner for field, inner in get_type_hints(kind).items()})
        else:
            found[name] = kind
    return found


def value_of(settings: Settings, key: str) -> Any:
    """Return the value of a dotted key."""
    value: Any = settings
    for part in key.split("."):
        value = getattr(value, _attribute(part))
    return value


def _attribute(part: str) -> str:
    """Return the attribute of a part of a key: ``smtp.from`` would be a word of the language."""
    return f"{part}_" if iskeyword(part) else part


def environment_name(key: str) -> str:
    """Return the environment variable of a dotted key: ``deliver.timeout`` is ``HOOKLINE_DELIVER_TIMEOUT``."""
    return "HOOKLINE_" + key.replace(".", "_").upper()


def may_enter_folder() -> bool:
    """Return whether the current folder may hold files for this user.

    Root's is closed to the service's user, as whom root runs commands (``runuser``, ``sudo -u``): what root has there
    is no file of theirs, and that it cannot be looked for is no reason to refuse.
    """
    return os.access(".", os.X_OK)


def _from_file(config: Path | None) -> dict[str, tuple[object, str]]:
    path = config or Path("hookline.yaml")
    try:
        if config is None and not (may_enter_folder() and path.exists()):
            return {}
        text = path.read_text()
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    import yaml  # here: only a process that has a file pays for the import

    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        # Neither the line itself nor a name in quotes: where a value lacks its own quotes, both may be a secret.
        reason = re.sub("'[^']{2,}'", "…", error.problem or error.context or "it cannot be read")
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}{line}: this is not valid YAML: {reason}") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from None
    except (ValueError, LookupError, OverflowError):  # what YAML raises for a date in no calendar, say
        raise SettingsError(f"{path}: a date or number cannot be read; write texts in quotes") from None
    if not isinstance(document, dict | None):
        raise SettingsError(f"{path} does not hold settings; write lines such as 'deliver: {{timeout: 5s}}'")
    values: dict[str, tuple[object, str]] = {}
    for name, value in (document or {}).items():
        if isinstance(value, dict):
            values.update({f"{name}.{inner}": (item, f"file {path}") for inner, item in value.items()})
        elif value is not None or not any(key.startswith(f"{name}.") for key in keys()):  # a section may be empty
            values[str(name)] = (value, f"file {path}")
    return values


# HOOKLINE_SECRET_* holds secrets that connections refer to, HOOKLINE_CLIENT_* the options of the client libraries; the
# others steer tests and tools, not the service.
_NOT_SETTINGS = (
    "HOOKLINE_SECRET_",
    "HOOKLINE_CLIENT_",
    "HOOKLINE_CRASH_POINT",
    "HOOKLINE_SUPERVISOR_FD",
    "HOOKLINE_LISTENING_FDS",
    "HOOKLINE_TEST_",
    "HOOKLINE_TRACEBACK",
)


OTEL_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable that OpenTelemetry itself has for ``tracing.endpoint``; ours wins."""


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    names = {environment_name(key): key for key in keys()}
    values: dict[str, tuple[object, str]] = {}
    if environment.get(OTEL_ENDPOINT):
        values["tracing.endpoint"] = (environment[OTEL_ENDPOINT], f"env {OTEL_ENDPOINT}")
    for name, value in environment.items():
        if not name.startswith("HOOKLINE_") or name.startswith(_NOT_SETTINGS):
            continue
        if name not in names:
            raise SettingsError(f"unknown setting {name}{_nearest(name, names)}")
        values[names[name]] = (value, f"env {name}")
    return values


def _nearest(key: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _parse(key: str, raw: object, kind: Any) -> Any:
    try:
        return parse_rate_limit(raw) if kind == RateLimit | None else parse_as(raw, kind)
    except (ValueError, TypeError) as error:
        # What is given for a secret may be the secret, only not in its form.
        got = "" if key in SECRET_KEYS or key == "database.url" else f" (got {raw!r})"
        raise SettingsError(f"setting {key!r}: {error}{got}") from None


def _build(parsed: Mapping[str, Any]) -> Settings:
    arguments: dict[str, Any] = {}
    for name, kind in get_type_hints(Settings).items():
        prefix = f"{name}."
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            inner = {_attribute(key.removeprefix(prefix)): v for key, v in parsed.items() if key.startswith(prefix)}
            arguments[name] = kind(**inner)
        elif name in parsed:
            arguments[name] = parsed[name]
    return Settings(**arguments)


def _validate(settings: Settings) -> None:
    for key in ("collect.listen", "control.listen"):
        try:
            parse_listen(value_of(settings, key))
        except ValueError as error:
            raise SettingsError(f"setting {key!r}: {error}") from None
    if settings.collect.public_url and not _is_address(settings.collect.public_url):
        raise SettingsError("setting 'collect.public_url': write an address such as https://events.example.com")
    if not re.fullmatch(r"[^/]*(?://[^/]*)?(?:/[A-Za-z0-9._~-]+)*/?", settings.control.public_url or ""):
        raise SettingsError(
            "setting 'control.public_url': write an address such as https://hookline.example.com, or with a plain path,"
            " https://example.com/hookline"
        )
    for key in ("collect.proxy_protocol", "control.proxy_protocol"):
        if value_of(settings, key) and not settings.collect.trusted_proxies:
            raise SettingsError(f"setting {key!r}: name the load balancers that send it in collect.trusted_proxies")
    for key in (
        "deliver.timeout",
        "deliver.retry_first",
        "deliver.retry_max",
        "deliver.retry_window",
        "retention.events",
    ):
        if value_of(settings, key) <= 0:
            raise SettingsError(f"setting {key!r}: write a duration above zero")
    if settings.retention.bytes <= 0:
        raise SettingsError("setting 'retention.bytes': write a size above zero; there is no value for no limit")
    if settings.deliver.connection_age < 1:
        raise SettingsError("setting 'deliver.connection_age': write a duration from 1s")
    if not re.fullmatch(r"http://(?!\Z)[^/?#\s]+:[0-9]+/?|(env|file):\S+", settings.deliver.proxy or "http://-:1"):
        raise SettingsError(
            "setting 'deliver.proxy': write http://user:password@proxy.example.com:3128, with percent-encoding in user"
            " and password, or a reference such as file:proxy"
        )
    for key in ("collect.idle_timeout", "control.idle_timeout"):
        if not 1 <= value_of(settings, key) <= DAY_SECONDS:
            raise SettingsError(f"setting {key!r}: write a duration from 1s to 24h")
    if settings.collect.drain_delay > DRAIN_DELAY_SECONDS_MAX:
        raise SettingsError("setting 'collect.drain_delay': write a duration up to 5m")
    if not 1 <= settings.deliver.session_timeout <= 300:
        raise SettingsError("setting 'deliver.session_timeout': write a duration from 1s to 5m")
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", settings.service_name):
        raise SettingsError("setting 'service_name': letters, digits and hyphens only; it names the User-Agent")
    for key in ("notices.dead_letters", "notices.rejected_events"):
        if value_of(settings, key) < 0:
            raise SettingsError(f"setting {key!r}: write a number from 0; 0 turns these notices off")
    if (settings.smtp.url is None) != (settings.smtp.from_ is None):
        raise SettingsError("setting 'smtp.url': it goes with smtp.from; set both")
    if not re.fullmatch(r"smtps?://(?!\Z)\S+|(env|file):\S+", settings.smtp.url or "smtp://-"):
        raise SettingsError(
            "setting 'smtp.url': write smtp://user:password@mail.example.com:587, with percent-encoding in user and"
            " password, or a reference such as file:smtp-url"
        )
    if not re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", settings.smtp.from_ or "a@b"):
        raise SettingsError("setting 'smtp.from': write one address, such as hookline@example.com")
    if len(settings.notices.webhooks) > NOTICE_WEBHOOKS_MAX:
        raise SettingsError(f"setting 'notices.webhooks': write at most {NOTICE_WEBHOOKS_MAX} URLs")
    if not re.fullmatch(r"local|postgresql://(?!\Z)([^/?@\s]*@)?[^?@\s]*(\?\S*)?", settings.database.url):
        raise SettingsError(
            "setting 'database.url': write local, or postgresql://user@host:5432/database, with percent-encoding in"
            " user and password"
        )
    if not re.fullmatch(r"local|kafka://[^/\s@]+:\d+/[A-Za-z0-9._-]{1,249}", settings.journal.url):
        raise SettingsError("setting 'journal.url': write local, or kafka://host:port,host:port/topic")
    if settings.journal.partitions < 1 or settings.journal.partitions > 1024:
        raise SettingsError("setting 'journal.partitions': write a number from 1 to 1024")
    _validate_access(settings.journal)
    if settings.tracing.endpoint and not _is_address(settings.tracing.endpoint):
        raise SettingsError("setting 'tracing.endpoint': write an address such as http://collector:4318")
    if not 0 <= settings.tracing.ratio <= 1:
        raise SettingsError("setting 'tracing.ratio': write a number from 0 to 1")


def _validate_access(journal: Journal) -> None:
    """Refuse half of what a journal on Kafka is met with: it would be left out without a word."""
    files = ("tls_ca_file", "tls_certificate_file", "tls_key_file", "tls_key_password")
    for key in files if not journal.tls else ():
        if getattr(journal, key) is not None:
            raise SettingsError(f"setting 'journal.{key}': it is used with TLS alone; set journal.tls to true")
    if (journal.tls_certificate_file is None) != (journal.tls_key_file is None):
        raise SettingsError("setting 'journal.tls_certificate_file': it goes with journal.tls_key_file; set both")
    has_sasl = journal.sasl_mechanism != "none"
    for key in ("sasl_username", "sasl_password"):
        if has_sasl and not getattr(journal, key):
            raise SettingsError(f"setting 'journal.{key}': {journal.sasl_mechanism} needs it")
        if not has_sasl and getattr(journal, key) is not None:
            raise SettingsError(f"setting 'journal.{key}': say how it is used with journal.sasl_mechanism")
    if journal.sasl_mechanism == "PLAIN" and not journal.tls:
        raise SettingsError(
            "setting 'journal.sasl_mechanism': PLAIN would send the password for all to read; set journal.tls to true"
        )


def _is_address(text: str) -> bool:
    return re.fullmatch(r"https?://[^/?#\s\\]+(?:/[^?#\s\\]*)?", text) is not None
