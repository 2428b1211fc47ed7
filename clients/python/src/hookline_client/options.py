"""Every option of a client, with its default and its name in the environment; what is wrong is said by name.

An option given in code wins over the environment (``HOOKLINE_CLIENT_FLUSH_AT``), which wins over the default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hookline_client.batch import BATCH_EVENTS_MAX
from hookline_client.endpoint import Endpoint, parse_endpoint
from hookline_client.errors import InvalidOption

if TYPE_CHECKING:
    from hookline_client.consumers.protocol import Consumer
    from hookline_client.ledger import Ledger
    from hookline_client.transport import Transport

ENVIRONMENT_PREFIX = "HOOKLINE_CLIENT_"
FLUSH_AT = 20
HTTP_TIMEOUT_SECONDS = 10.0
SOCKET_TIMEOUT_SECONDS = 0.5

ConsumerName = Literal["background", "lib_curl", "fork_curl", "socket", "file"]
ConsumerFactory = Callable[["Options", "Ledger"], "Consumer"]
Policy = Literal["drop_new", "drop_old", "block"]


class Options(NamedTuple):
    """The options in force. Sizes are counts unless they say bytes; times are seconds."""

    write_key: str = ""
    """The source's write key. Without one nothing is sent, and the log says so."""
    endpoint: str = "http://127.0.0.1:8080"
    """URL of the service; without a scheme ``ssl`` decides."""
    consumer: ConsumerName | ConsumerFactory = "background"
    """Who sends: ``background``, ``lib_curl``, ``fork_curl``, ``socket``, ``file``, or a function that makes one."""
    size: int = FLUSH_AT
    """Go's other name of ``flush_at``; when both are given, the smaller counts."""
    flush_at: int = FLUSH_AT
    """Flush after this many messages; 1 sends every call at once."""
    flush_after: float = 5.0
    """Flush when this time has passed since the last flush."""
    debug: bool = False
    """Log every message, and wait for the answer in every call. Not for production."""
    ssl: bool = True
    """Use TLS, unless the endpoint says ``http://``."""
    error_handler: Callable[[str, str], object] | None = None
    """Called with a code and a sentence for whatever is lost, and when a request is first to be tried again."""
    max_queue_size: int = 10_000
    """Events that may wait."""
    batch_size: int = 100
    """Events per request, at most 2,500; a request is never larger than 500 KB."""
    timeout: float | None = None
    """Time for one exchange with the service; unset means 0.5 for ``socket`` and 10 for the others."""
    filename: str = "/tmp/analytics.log"
    """Log file of the ``file`` consumer."""
    max_queue_bytes: int = 32 * 1024 * 1024
    """Bytes of events that may wait."""
    spool: str | None = None
    """Directory in which ``background`` keeps events until they are acknowledged, across crashes; unset is memory."""
    spool_bytes: int = 1024**3
    """Bytes of one process's events that may wait in the spool, where neither count nor bytes of the queue apply."""
    on_full: Policy = "drop_new"
    """When the queue is full: refuse the new event, drop the oldest, or ``block`` the caller for a while."""
    block_timeout: float = 1.0
    """How long ``block`` waits before it refuses the new event."""
    gzip: bool = False
    """Compress requests."""
    max_retries: int = 10_000
    """Retries of a request before its events are given up."""
    retry_seconds: float = 3600.0
    """Time from a request's first try until its events are given up."""
    ca_file: str | None = None
    """Certificate authorities to trust instead of the system's (PEM)."""
    before_send: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    """Called with every message; what it returns is sent, and None is not."""
    before_send_failure: Literal["drop", "pass"] = "drop"
    """Whether a message whose ``before_send`` raised is dropped or sent as it was."""
    default_context: Mapping[str, Any] | None = None
    """Laid under the context of every call."""
    default_integrations: Mapping[str, Any] | None = None
    """Laid under the integrations of every call."""
    enabled: bool = True
    """Whether anything is sent at all; calls are checked and forgotten otherwise."""
    on_success: Callable[[Sequence[str]], object] | None = None
    """Called with the messageIds of every request that the service acknowledged, on the thread that sends."""
    receipts: bool = False
    """Keep receipts of accepted events too for the next ``flush``; those of lost ones always are."""
    strict: bool = False
    """Raise what is otherwise counted and logged; for tests."""
    exit_timeout: float = 2.0
    """How long the end of the process may be delayed by events that still wait."""
    transport: Transport | None = None
    """Another way to send batches, such as ``hookline_client.testing.RecordingTransport``."""

    def __repr__(self) -> str:
        """All but the write key: options end up in logs and in reports of exceptions."""
        key = "***" if self.write_key else ""
        pairs = zip(self._fields, self._replace(write_key=key), strict=True)
        return f"Options({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    @property
    def timeout_seconds(self) -> float:
        """The timeout in force."""
        if self.timeout is not None:
            return self.timeout
        return SOCKET_TIMEOUT_SECONDS if self.consumer == "socket" else HTTP_TIMEOUT_SECONDS

    @property
    def address(self) -> Endpoint:
        """The endpoint, taken apart."""
        return parse_endpoint(self.endpoint, self.ssl)


NOT_IN_ENVIRONMENT = frozenset(("error_handler", "before_send", "on_success", "transport"))
_CHOICES: dict[str, tuple[str, ...]] = {
    "consumer": ("background", "lib_curl", "fork_curl", "socket", "file"),
    "on_full": ("drop_new", "drop_old", "block"),
    "before_send_failure": ("drop", "pass"),
}
_COUNTS = {
    "size": (1, 1_000_000),
    "flush_at": (1, 1_000_000),
    "max_queue_size": (1, 10_000_000),
    "batch_size": (1, BATCH_EVENTS_MAX),
    "max_queue_bytes": (1, 2**40),
    "spool_bytes": (1, 2**50),
    "max_retries": (0, 1_000_000),
}
_SECONDS = {
    "flush_after": (0.001, 86_400.0),
    "timeout": (0.001, 3_600.0),
    "block_timeout": (0.0, 3_600.0),
    "retry_seconds": (0.0, 604_800.0),
    "exit_timeout": (0.0, 3_600.0),
}
_SWITCHES = ("debug", "ssl", "gzip", "enabled", "receipts", "strict")
_TEXTS = ("write_key", "endpoint", "filename", "ca_file", "spool")
_PATHS = ("filename", "ca_file", "spool")
_MAPPINGS = ("default_context", "default_integrations")


def resolve(write_key: str | None, given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Options:
    """Return the options in force; InvalidOption names the one that is wrong."""
    values = _from_environment(os.environ if environment is None else environment)
    if given.get("size") is not None or given.get("flush_at") is not None:  # one option under two names
        values.pop("size", None)
        values.pop("flush_at", None)
    if write_key is not None:
        values["write_key"] = write_key
    values.update((name, value) for name, value in given.items() if value is not None)
    for name, value in values.items():
        values[name] = _checked(name, value)
    for name in _PATHS:  # the folder may be another one when they are used: daemons change it
        if values.get(name) and not os.path.isabs(values[name]):
            values[name] = os.path.join(os.getcwd(), values[name])  # not abspath: behind a link, .. leads elsewhere
    at = min((values[name] for name in ("size", "flush_at") if name in values), default=FLUSH_AT)
    options = Options(**{**values, "size": at, "flush_at": at})
    _ = options.address  # InvalidOption now rather than in a thread
    return options


def environment_name(option: str) -> str:
    """The variable that sets an option."""
    return ENVIRONMENT_PREFIX + option.upper()


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in Options._fields:
        text = environment.get(environment_name(name)) if name not in NOT_IN_ENVIRONMENT else None
        if text:
            values[name] = _read(name, text)
    return values


def _read(name: str, text: str) -> Any:
    try:
        if name in _COUNTS:
            return int(text)
        if name in _SECONDS:
            return float(text)
        if name in _SWITCHES:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
        return json.loads(text) if name in _MAPPINGS else text
    except (KeyError, ValueError):
        raise InvalidOption("invalid_option", f"{environment_name(name)} cannot be {text!r}") from None


def _checked(name: str, value: Any) -> Any:
    if name in _COUNTS:
        _bounded(name, value, int, *_COUNTS[name])
    elif name in _SECONDS:
        _bounded(name, value, (int, float), *_SECONDS[name])
    elif name in _SWITCHES:
        _require(isinstance(value, bool), name, "must be True or False", value)
    elif name in _TEXTS:
        _require(isinstance(value, str), name, "must be a string", value)
        _require(name != "write_key" or value.isprintable(), name, "must not hold line ends or the like", value)
        _require(name != "ca_file" or os.path.isfile(value), name, "must be a file", value)
    elif name in _MAPPINGS:
        _require(isinstance(value, Mapping), name, "must be a mapping", value)
        return dict(value)
    elif name in _CHOICES:
        callable_too = name == "consumer" and callable(value)
        _require(callable_too or value in _CHOICES[name], name, f"must be one of {', '.join(_CHOICES[name])}", value)
    elif name == "transport":
        _require(hasattr(value, "send"), name, "must have a method send", value)
    elif name in Options._fields:
        _require(callable(value), name, "must be callable", value)
    else:
        raise InvalidOption("invalid_option", f"there is no option {name}{_nearest(name)}")
    return value


def _bounded(name: str, value: Any, kind: Any, least: float, most: float) -> None:
    good = isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most
    _require(good, name, f"must be a number from {least:,} to {most:,}", value)


def _require(good: bool, name: str, rule: str, value: object) -> None:
    if not good:
        shown = f"this {type(value).__name__}" if name == "write_key" else repr(value)
        raise InvalidOption("invalid_option", f"{name} {rule}, not {shown}")


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, Options._fields, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
