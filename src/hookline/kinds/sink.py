"""What a kind is that makes no HTTP requests: code that takes events and puts them somewhere.

A module named by ``sink`` in a ``kind.yaml`` has ``open_sink(context, settings) -> Sink``, and may have two functions
more. ``place_of(destination, settings) -> str`` says where events go, as people read it with attempts: quickly, without
asking anybody, and from settings in which something else stands for each secret. ``check_sink(context, settings)``
finds out within seconds that events could be written, leaves nothing behind, and raises SinkFailed, with what to do,
where they could not; the settings may be ones that nobody saves.

Events come in batches, in the order of the stream but for those that are tried again, with the place of each in the
journal: an event may come again, after a crash or where its partition passed to another process, or back to this one,
while it was being written; it then has the same place. ``write`` may block (it runs in a thread of its own, one call at
a time for a destination), must end in a bounded time, and answers for each event what became of it. What it cannot do
for now it raises as SinkFailed, and everything is tried again. A ``delete`` message among the events asks for a
person's events to be erased: it is accepted once they are, with a remark in its Verdict that says how much went and
names nobody, because the remark is kept as evidence.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hookline.kinds.answers import Verdict
from hookline.kinds.model import Json

__all__ = [
    "Sink",
    "SinkAway",
    "SinkContext",
    "SinkEvent",
    "SinkFailed",
    "Verdict",
    "check_sink",
    "counted",
    "sink_module",
]


class SinkFailed(Exception):
    """Nothing can be written for now; the message says why, and what a person may do."""


class SinkAway(SinkFailed):
    """Where events are written cannot be reached at all, so that none of them has a part in the failure. What
    ``open_sink`` raises means that too."""


class SinkEvent(NamedTuple):
    """One event: its place in the journal, its fields as mappings see them, and its JSON as webhooks get it."""

    partition: int
    offset: int
    received_at_ms: int
    fields: Mapping[str, Json]
    body: bytes


class SinkContext(NamedTuple):
    """Hold what a sink may use of the process that it runs in."""

    destination: str
    """The id."""
    folder: Path
    """The only folder of this machine that it may write to."""
    refusal: Callable[[str], str | None]
    """Says why a numeric address may not be contacted, None when it may."""
    notice: Callable[[str, str], None]
    """Tells operators that what is written to has changed: a name such as ``column_added`` for the log, and a sentence
    that becomes part of a notice. For the thread of the sink; a few sentences for each call of ``write``."""
    proxy: Callable[[str, int, float], socket.socket] | None = None
    """Connects to a numeric address and port through ``deliver.proxy``, within so many seconds; None where none is
    set."""

    def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be contacted; raise SinkFailed where there is none.

        Whoever connects must connect to one of these: another look-up may answer differently.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise SinkAway(f"the name {host} cannot be resolved: {error.strerror or error}") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        refused = [reason for address in addresses if (reason := self.refusal(address)) is not None]
        if refused:
            raise SinkAway(refused[0])
        return addresses

    def connected(self, address: str, port: int, seconds: float) -> socket.socket:
        """Return a socket that is connected to one of ``addresses``, through the proxy where there is one; raise
        OSError."""
        if self.proxy is None:
            return socket.create_connection((address, port), seconds)
        return self.proxy(address, port, seconds)


class Sink(Protocol):
    """Takes the events of one destination."""

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        """Put events where they belong, durably; return what became of each, in their order. Raise SinkFailed."""

    def close(self) -> None:
        """Let go of connections and files; may be called twice."""


def check_sink(name: str, context: SinkContext, settings: Mapping[str, Json]) -> None:
    """Check that the sink of a module could write: by its own check, else by opening it. Raise SinkFailed, and
    ValueError for a module that cannot be used."""
    module = sink_module(name)
    own = getattr(module, "check_sink", None)
    if own is not None:
        own(context, settings)
        return
    module.open_sink(context, settings).close()


def counted(number: int, noun: str) -> str:
    """Return how many there are of something, for a remark: ``1 row``, ``12 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sink_module(name: str) -> Any:
    """Return the module of a kind; raise ValueError for one that cannot be used."""
    try:
        module = importlib.import_module(name)
        module.open_sink  # noqa: B018 - asked for, not used
    except Exception as error:  # noqa: BLE001 - the border to code that is not ours
        raise ValueError(f"the module {name} of the kind cannot be used: {error}") from None
    return module
