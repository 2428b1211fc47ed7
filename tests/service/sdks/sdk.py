"""One SDK of the field: what runs it, where it is installed, and what it is called."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = HERE / "programs"
RECORDED = HERE / "recorded"


@dataclass(frozen=True)
class SDK:
    """An SDK and a program that says everything in ``programs/calls.json`` with it."""

    id: str
    package: str
    version: str
    library: tuple[str, str]
    """Name and version as the SDK writes them into ``context.library``."""
    command: tuple[str, ...] = ()
    page: str = ""
    """Instead of a command: the page of ``programs/browser`` that uses it."""
    told_when_left: bool = False
    """Whether that page sends only when it is left."""
    installed: Path | None = None
    """For an SDK whose registry cannot be reached everywhere: exists where scripts/test-needs.sh could install it.
    Where it could not, recorded requests stand in."""
    tls: bool = False
    scheme: bool = True
    """Whether its host is written with http:// or https:// before it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    """Where it has to be listened for; 0: anywhere."""
    has_true_clock: bool = False
    """Whether ``faketime`` is no use: Go does not ask the library it is in, and Java is slowed down many times."""
    without: str = ""
    """The type of call that it does not have."""
    lacks: frozenset[str] = frozenset()
    """What of that which was said its calls have no place for, as ``page category``."""
    times: Literal["milliseconds", "seconds"] = "milliseconds"
    """How finely it writes the time it is given."""

    @property
    def is_installed(self) -> bool:
        """Whether the SDK itself can run here, on the port it insists on."""
        if self.installed is None:
            return True
        return self.installed.exists() and (self.port == 0 or _can_listen(self.port))

    @property
    def is_recorded(self) -> bool:
        """Whether its requests are kept in the repository."""
        return self.installed is not None

    @property
    def recording(self) -> Path:
        """The folder with its requests as they were on the wire, a file for each connection."""
        return RECORDED / self.id


def _can_listen(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
