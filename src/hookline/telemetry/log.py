"""One logger for every role: coloured text in a terminal, one JSON object per line elsewhere.

Log lines name an event (snake_case) and its fields; they never hold an event's content or a secret.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from hookline.telemetry.log_stream import LogStream

# structlog imports these where it finds them, which costs every role 6 MB and 150 ms for nothing that is used here.
_unwanted = [name for name in ("rich", "greenlet") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_unwanted))  # type: ignore[arg-type]  # makes their imports fail
import structlog  # noqa: E402

for _name in _unwanted:
    del sys.modules[_name]


def configure(role: str, log_format: str = "auto") -> None:
    """Set up logging for this process; ``log_format`` is the setting ``log.format``."""
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if as_text
        else structlog.processors.JSONRenderer()
    )
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not as_text:
        processors.append(structlog.processors.format_exc_info)
    processors.append(renderer)
    if isinstance(sys.stderr, LogStream):
        sys.stderr.dropped_line = partial(_dropped_line, processors, role)
    structlog.configure(
        processors=processors,
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    _role.append(role)
    logging.getLogger().handlers[:] = [_Libraries(logging.WARNING)]


class _Libraries(logging.Handler):
    """Hold what a library warns of, as a line like all others, where Python would print bare text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line."""
        write = logger().error if record.levelno >= logging.ERROR else logger().warning
        write("library_warned", library=record.name, message=record.getMessage().strip(), exc_info=record.exc_info)


def _dropped_line(processors: list[Any], role: str, count: int) -> str:
    line: Any = {"event": "log_lines_dropped", "role": role, "count": count}
    for processor in processors:
        line = processor(None, "warning", line)
    return f"{line}\n"


_role: list[str] = []


def logger() -> Any:
    """Return the logger of this process, carrying its role."""
    return structlog.get_logger().bind(role=_role[-1] if _role else "none")


@contextmanager
def silenced() -> Iterator[None]:
    """Write no log lines meanwhile: simulations fail on purpose, thousands of times."""
    before = structlog.get_config()
    structlog.configure(processors=[_drop], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(logger: object, method: str, event: object) -> Any:
    raise structlog.DropEvent
