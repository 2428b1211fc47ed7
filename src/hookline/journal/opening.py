"""Which journal a data folder has, and opening it: a local one, or one on Kafka that ``journal/kafka`` names.

The places that the databases of a data folder hold mean nothing in another journal, so a folder belongs to the one it
began with. The file is also how tools that know the data folder alone find the brokers.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.journal.local.reader import LocalReader
from hookline.journal.moved import refuse_moved
from hookline.journal.port import JournalAway, JournalFailed, JournalUnusable, Reader, SearchableReader
from hookline.secret_references import is_reference
from hookline.settings import Settings, environment_name, value_of
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.journal.kafka.appender import KafkaAppender
    from hookline.journal.kafka.fetching import FetchingReader
    from hookline.journal.kafka.follower import Follower
    from hookline.journal.kafka.membership import Membership
    from hookline.journal.local.appender import LocalAppender

FOLDER = "journal"
KAFKA_FILE = "kafka"
"""In the journal's folder: the ``journal.url`` in the first line, and what brokers are met with in the second."""
SEGMENT_BYTES_MIN = 4 * 1024 * 1024
SEGMENTS_MIN = 16
"""A local journal's segments are this small a share of its bytes, for retention takes whole ones."""
LOOP_WAIT_SECONDS = 0.25
"""How long a read may hold up an event loop; after one that was in vain, none is tried for ``LOOP_REST_SECONDS``."""
LOOP_REST_SECONDS = 2.0
BEHIND = "the journal ends before events that were delivered: start collect again, and it goes on behind them"
_LOCAL = "local"
_POLL_SECONDS = 0.25


def claim(settings: Settings) -> None:
    """Hold the data folder against ``journal.url``, and note the brokers in it; raise JournalUnusable."""
    folder = settings.data_path / FOLDER
    refuse_moved(settings.data_path)
    url, noted = settings.journal.url, kafka_url(folder)
    if url == _LOCAL:
        if noted is not None:
            raise JournalUnusable(f"the journal of {folder.parent} is on Kafka: set journal.url to {noted}")
        return
    if find_spec("confluent_kafka") is None:
        raise JournalUnusable("a journal on Kafka needs the extra named kafka: pip install 'hookline[kafka]'")
    from hookline.journal.kafka.address import address_of, parse_address

    remember_secrets(settings)
    if noted is None and (folder / "0").exists():
        raise JournalUnusable(f"{folder.parent} has a local journal: hookline migrate-to moves it to Kafka")
    if noted is not None and parse_address(noted).topic != parse_address(url).topic:
        raise JournalUnusable(f"the journal of {folder.parent} is {noted}: a folder cannot go on with another topic")
    note = address_of(settings).note
    if note != _note(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = folder / f"{KAFKA_FILE}.{os.getpid()}"
        temporary.touch(mode=0o600)
        temporary.write_text(note)
        temporary.replace(folder / KAFKA_FILE)


def remember_secrets(settings: Settings) -> None:
    """Have this process and its children know the secrets that the folder's file only names."""
    if settings.journal.url == _LOCAL:
        return
    from hookline.journal.kafka.access import SECRET_SETTINGS

    secrets = {environment_name(key): value_of(settings, key) for key in SECRET_SETTINGS}
    os.environ.update({name: value for name, value in secrets.items() if value and not is_reference(value)})


def kafka_url(folder: Path) -> str | None:
    """Return where the journal of this folder is; None when it is the folder itself."""
    note = _note(folder)
    return None if note is None else note.split("\n", 1)[0]


def open_reader(folder: Path) -> SearchableReader:
    """Return a reader of the journal of a data folder's ``journal`` folder."""
    note = _note(folder)
    if note is None:
        return LocalReader(folder)
    from hookline.journal.kafka.address import noted
    from hookline.journal.kafka.reader import KafkaReader

    return KafkaReader(folder, noted(note))


def limit_wait(
    reader: Reader, wait_seconds: float = LOOP_WAIT_SECONDS, rest_seconds: float = LOOP_REST_SECONDS
) -> None:
    """Have a reader wait for brokers only so long, by default so that others on an event loop hardly notice."""
    if not isinstance(reader, LocalReader):
        from hookline.journal.kafka.reader import KafkaReader

        if isinstance(reader, KafkaReader):
            reader.wait(wait_seconds, rest_seconds)


def open_follower(folder: Path, on_arrival: Callable[[], object]) -> Follower | None:
    """Return what an event loop follows the journal's end by; None for a local one, whose reader never waits."""
    note = _note(folder)
    if note is None:
        return None
    from hookline.journal.kafka.address import noted
    from hookline.journal.kafka.follower import Follower

    return Follower(folder, noted(note), on_arrival)


def open_lookups(folder: Path, on_arrival: Callable[[], object]) -> FetchingReader | None:
    """Return what an event loop looks records up by; None for a local journal, whose reader never waits."""
    note = _note(folder)
    if note is None:
        return None
    from hookline.journal.kafka.address import noted
    from hookline.journal.kafka.fetching import FetchingReader

    return FetchingReader(folder, noted(note), on_arrival)


def open_membership(settings: Settings, **callbacks: Any) -> Membership:
    """This process as one of those that share the topic of a journal on Kafka; ``callbacks`` are ``Membership``'s."""
    from hookline.journal.kafka.address import address_of
    from hookline.journal.kafka.membership import Membership

    return Membership(address_of(settings), settings.deliver.session_timeout, **callbacks)


def is_shared(settings: Settings) -> bool:
    """Return whether many deliver processes share the journal: when it is on Kafka, and their database PostgreSQL."""
    return settings.journal.url != _LOCAL and settings.database.url != _LOCAL


def open_appender(
    settings: Settings,
    on_failed: Callable[[JournalFailed], None],
    steady_ms: Callable[[], int],
    known: Mapping[int, Mapping[str, int]] | None = None,
) -> LocalAppender | KafkaAppender:
    """Return the appender of this data folder; one on Kafka refuses records until ``open`` has found its topic. Records
    age by the service's own clock, ``steady_ms``; a local journal goes on behind all that is ``known``
    (``LocalAppender``)."""
    folder = settings.data_path / FOLDER
    note = _note(folder)
    if note is None:
        from hookline.journal.local.appender import SEGMENT_BYTES, LocalAppender

        return LocalAppender(
            folder,
            settings.journal.partitions,
            retention_seconds=settings.retention.events,
            retention_bytes=settings.retention.bytes,
            segment_bytes=max(SEGMENT_BYTES_MIN, min(SEGMENT_BYTES, settings.retention.bytes // SEGMENTS_MIN)),
            wake_path=settings.socket_path("deliver.wake"),
            on_failed=on_failed,
            steady_ms=steady_ms,
            known=known,
        )
    from hookline.journal.kafka.address import noted
    from hookline.journal.kafka.appender import KafkaAppender

    return KafkaAppender(
        folder,
        noted(note),
        settings.journal.partitions,
        retention_seconds=settings.retention.events,
        retention_bytes=settings.retention.bytes,
        wake_path=settings.socket_path("deliver.wake"),
        on_failed=on_failed,
        steady_ms=steady_ms,
    )


async def wait_for_partitions(settings: Settings, stop: asyncio.Event) -> None:
    """Return once all partitions of a journal on Kafka can be read, or at ``stop``; at once for a local one."""
    folder = settings.data_path / FOLDER
    if kafka_url(folder) is None:
        return
    told = False
    while not stop.is_set():
        try:
            with closing(open_reader(folder)) as reader:  # one that was asked before knows a number from then
                if len(await asyncio.to_thread(reader.partitions)) >= settings.journal.partitions:
                    return
            reason = "the journal's topic, or a partition of it, is not there yet; collect makes it"
        except JournalAway as away:
            reason = str(away)
        if not told:
            logger().warning("waiting_for_journal", reason=reason)
            told = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _POLL_SECONDS)


async def wait_for_recovery(settings: Settings, places: Mapping[int, int], stop: asyncio.Event) -> None:
    """Return once a local journal's end can be believed by a reader that was at these places (offsets by partition), or
    at ``stop``; at once in nearly every start, and for a journal on Kafka.

    Nothing synchronises the end that readers see, so a power cut may set it back by a whole day. ``collect`` finds the
    true one when it opens the journal; who starts before it would take the old one for the place where it stood, and
    send again all that came since. A journal that has lost its end is opened behind the places: at a place beyond its
    end events that come later would be taken for those that were there.
    """
    told = ""
    if settings.journal.url != _LOCAL:
        return
    with closing(LocalReader(settings.data_path / FOLDER)) as reader:
        while not stop.is_set():
            is_open = await asyncio.to_thread(_is_open, settings.socket_path("collect.sock")) if told else False
            if all(reader.end(partition) >= place for partition, place in places.items()):
                return
            reason = BEHIND if is_open else "collect has not opened the journal yet"
            if reason != told:
                logger().warning("waiting_for_journal", reason=reason)
                told = reason
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _POLL_SECONDS)


def _is_open(path: Path) -> bool:
    """Return whether ``collect`` takes records from other roles, which it does once the journal is recovered."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_POLL_SECONDS)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _note(folder: Path) -> str | None:
    try:
        return (folder / KAFKA_FILE).read_text()
    except FileNotFoundError:
        return None
