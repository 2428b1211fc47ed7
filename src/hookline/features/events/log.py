"""The stored events, newest first, with their statuses: what the events list and the event pages read."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import msgspec

from hookline.api.calls import CallersTurns
from hookline.api.problem import Problem
from hookline.events import untyped
from hookline.journal.opening import open_reader
from hookline.journal.port import SearchableReader
from hookline.journal.reading import Place, newest_first
from hookline.journal.record import Record
from hookline.outcomes.event_status import EventStatus, EventStatuses, FoundMessage
from hookline.outcomes.outcome import DeliveryStatus
from hookline.replays.offset_set import offset_at
from hookline.settings import Settings


class EventFilter(NamedTuple):
    """Hold what a search asks for; None asks for nothing. ``text`` is looked for anywhere in the event; ``status`` is
    that at ``destination`` where one is given. Accepted within ``[since_ms, until_ms)``."""

    source: str | None = None
    type: str | None = None
    event: str | None = None
    user_id: str | None = None
    message_id: str | None = None
    status: str | None = None
    text: str | None = None
    destination: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def matcher(self) -> Callable[[Record], bool]:
        """Return whether a record is wanted, as far as it tells by itself: of statuses it only knows ``rejected``."""
        holds_text = _holding(self.text) if self.text else None

        def matches(record: Record) -> bool:
            return (
                (self.source is None or record.source == self.source)
                and (self.type is None or record.type == self.type)
                and (self.user_id is None or record.user_key == self.user_id)
                and (self.message_id is None or record.message_id == self.message_id)
                and (self.status != "rejected" or record.rejection is not None)
                and (self.event is None or event_name(record) == self.event)
                and (holds_text is None or holds_text(record))
            )

        return matches

    def takes(self, event: EventStatus) -> bool:
        """Return whether an event is wanted by its statuses."""
        if self.destination is None:
            return self.status is None or self.status in statuses_of(event)
        at = next((each.status for each in event.destinations if each.id == self.destination), "not_routed")
        return at == self.status if self.status is not None else at != "not_routed"


EVERYTHING = EventFilter()


def event_name(record: Record) -> str:
    """Return what a person calls the event: a track call's event, a page's or screen's name; empty for other types."""
    return name_in(record.type, record.body)


def name_in(message_type: str, body: bytes) -> str:
    """Return the name in an event's JSON; rejected items are kept as they came, so it may not be JSON at all."""
    try:
        named = _named.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    name = named.event if message_type == "track" else named.name
    return name if isinstance(name, str) else ""


def title_in(message_type: str, body: bytes) -> str:
    """Return what a list shows of an event: its name; of a page without one where it was; of identify and group calls
    the traits they set; of an alias whom it joins. Empty where there is nothing of it."""
    try:
        named = _named.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    if message_type in ("identify", "group"):
        traits = _fields(named.traits)
        shown = [f"{name}: {_short(value)}" for name, value in list(traits.items())[:TRAITS_SHOWN]]
        return ", ".join(shown) + (" …" if len(traits) > TRAITS_SHOWN else "")
    if message_type == "alias":
        return f"{named.previousId} → {named.userId}" if named.previousId and named.userId else ""
    candidates = [named.event if message_type == "track" else named.name]
    if message_type == "page":
        # SDKs of websites name a page only if the caller does, which is rare.
        properties = _fields(named.properties)
        candidates += [properties.get(key) for key in PAGE_PLACES]
    return next((each for each in candidates if isinstance(each, str) and each), "")


PAGE_PLACES = ("path", "url", "title")


def _fields(value: msgspec.Raw) -> dict[str, object]:
    """Return the fields of an object; none of one that cannot be read, such as for a number beyond what we hold."""
    try:
        found = untyped.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= TRAIT_CHARACTERS_MAX else text[:TRAIT_CHARACTERS_MAX] + "…"


TRAITS_SHOWN = 3
TRAIT_CHARACTERS_MAX = 40


class _Named(msgspec.Struct):
    event: object = None
    name: object = None
    traits: msgspec.Raw = msgspec.Raw()
    properties: msgspec.Raw = msgspec.Raw()
    previousId: object = None
    userId: object = None


_named = msgspec.json.Decoder(_Named, float_hook=untyped.read_number)


_MAY_BE_ESCAPED = re.compile(r"""[^ -~]|["'&/<>\\]""")
"""What writers of JSON escape, some of them: Go "&", PHP slashes, many all that is not ASCII."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _holding(text: str) -> Callable[[Record], bool]:
    """Looks for a text, capital or small, in an event's ids and JSON, however its writer has escaped it there."""
    folded, may_be_escaped = text.casefold(), _MAY_BE_ESCAPED.search(text) is not None

    def holds(record: Record) -> bool:
        body = record.body.decode("utf-8", "replace")
        if may_be_escaped and "\\" in body:
            body = _ESCAPED.sub(_unescaped, body).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return any(folded in each.casefold() for each in (record.message_id, record.user_key, body))

    return holds


def _unescaped(found: re.Match[str]) -> str:
    code, character = found.groups()
    return chr(int(code, 16)) if code is not None else _CONTROLS.get(character, character)


SEARCH_SECONDS_MAX = 1.0
TAIL_EVENTS_MAX = 20
PARTITIONS_PER_CURSOR_MAX = 1_024

T = TypeVar("T")


class LoggedEvent(NamedTuple):
    """One stored event and where it lies."""

    partition: int
    offset: int
    record: Record
    status: EventStatus

    @property
    def cursor(self) -> str:
        """Return where it lies, as the API writes it."""
        return f"{self.partition}:{self.offset}"


class Page(NamedTuple):
    """Events found, and the cursor from which the next search goes on (None: there are no older ones)."""

    events: list[LoggedEvent]
    after: str | None


class EventLog:
    """Reads journal and outcomes; opened at the first use, because a new data folder has no journal yet."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._data_path = settings.data_path
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="event-log")
        self._turns = CallersTurns()
        self._reader: SearchableReader | None = None
        self._statuses: EventStatuses | None = None

    async def newest(
        self, wanted: EventFilter, limit: int, after: str | None = None, seconds: float = SEARCH_SECONDS_MAX
    ) -> Page:
        """Return the newest events that match, at most ``limit``, older than the cursor ``after``, as found in
        ``seconds``."""
        before = parse_cursor(after) if after else None
        return await self.run(lambda: self._newest(wanted, limit, before, seconds))

    async def of_message(self, message_id: str, source: str | None) -> EventStatus | None:
        """Return the status of a message, None when it is unknown (or no longer kept)."""
        return await self._run(lambda: self._status_reader().of_message(message_id, source))

    async def why_unknown(self, message_id: str, source: str | None) -> str:
        """Return why nothing is known of a message."""
        return await self._run(lambda: self._status_reader().why_unknown(message_id, source))

    async def find(self, message_id: str, source: str | None) -> FoundMessage | None:
        """Return where a message lies, None when it is unknown (or no longer kept)."""
        return await self._run(lambda: self._status_reader().find(message_id, source))

    async def run(self, work: Callable[[], T]) -> T:
        """Return what some work comes to that reads with this log's reader, on its thread."""
        async with self._turns.mine():
            return await self._run(work)

    def record_at(self, partition: int, offset: int) -> Record | None:
        """Return the record at a place, None when it is not kept; only within ``run``."""
        return self._journal().get(partition, offset)

    def before(self, ends: Mapping[int, int]) -> Iterator[Place]:
        """Yield the records below the offset given for each partition, newest first; only within ``run``."""
        return newest_first(self._journal(), ends)

    async def records_at(self, places: list[tuple[int, int]]) -> list[Record | None]:
        """Return the records at these places, None for those that are no longer kept."""
        return await self._run(lambda: [self._journal().get(partition, offset) for partition, offset in places])

    async def ends(self) -> dict[int, int]:
        """Return one past the newest durable offset of each partition."""
        return await self._run(self._ends)

    async def since(self, starts: dict[int, int]) -> tuple[list[LoggedEvent], int, dict[int, int]]:
        """Return the newest few events from these offsets on, how many were left out, and the offsets to go on from."""
        return await self._run(lambda: self._since(starts))

    async def events_at(self, places: list[tuple[int, int]]) -> list[LoggedEvent]:
        """Return the events at these places with their statuses as they are now; those no longer kept are missing."""
        return await self._run(lambda: self._events_at(places))

    async def over_newest(self, work: Callable[[Iterator[Record]], T]) -> T:
        """Return what ``work`` makes of the newest records, of which it gets as many as can be read in the time there
        is."""
        return await self.run(lambda: work(self._newest_records()))

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _journal(self) -> SearchableReader:
        if self._reader is None:
            self._reader = open_reader(self._data_path / "journal")
        return self._reader

    def _status_reader(self) -> EventStatuses:
        if self._statuses is None:
            self._statuses = EventStatuses(self._settings)
        return self._statuses

    def _ends(self) -> dict[int, int]:
        journal = self._journal()
        return {partition: journal.end(partition) for partition in journal.partitions()}

    def _newest(self, wanted: EventFilter, limit: int, before: dict[int, int] | None, seconds: float) -> Page:
        # A cursor names the partitions that still have older events; the first search begins at every end.
        positions = self._ends() if before is None else before
        if wanted.until_ms is not None:
            journal, until = self._journal(), wanted.until_ms
            positions = {each: min(end, offset_at(journal, each, until)) for each, end in positions.items()}
        matches = wanted.matcher()
        deadline = self._clock() + seconds
        found: list[LoggedEvent] = []
        for partition, offset, record in newest_first(self._journal(), dict(positions)):
            if wanted.since_ms is not None and record.received_at < wanted.since_ms:
                return Page(found, None)
            positions[partition] = offset
            if matches(record):
                logged = self._logged(partition, offset, record)
                if wanted.takes(logged.status):
                    found.append(logged)
            if len(found) >= limit or self._clock() > deadline:
                return Page(found, self._cursor(positions))
        return Page(found, None)

    def _newest_records(self) -> Iterator[Record]:
        deadline = self._clock() + SEARCH_SECONDS_MAX
        for place in newest_first(self._journal(), self._ends()):
            yield place.record
            if self._clock() > deadline:
                return

    def _cursor(self, positions: dict[int, int]) -> str | None:
        journal = self._journal()
        older = [
            f"{partition}:{offset}" for partition, offset in positions.items() if offset > journal.start(partition)
        ]
        return ",".join(older) or None

    def _since(self, starts: dict[int, int]) -> tuple[list[LoggedEvent], int, dict[int, int]]:
        ends = self._ends()
        places: list[tuple[int, int]] = []
        skipped = 0
        for partition, end in ends.items():
            start = starts.get(partition, 0)  # a partition that was not there before has nothing older
            first = max(start, end - TAIL_EVENTS_MAX)
            skipped += first - start
            places.extend((partition, offset) for offset in range(first, end))
        found = self._events_at(places)
        return found, skipped + len(places) - len(found), ends  # what cannot be read is left out, and counted

    def _events_at(self, places: list[tuple[int, int]]) -> list[LoggedEvent]:
        read = ((*place, self._journal().get(*place)) for place in places)
        return [self._logged(partition, offset, record) for partition, offset, record in read if record is not None]

    def _logged(self, partition: int, offset: int, record: Record) -> LoggedEvent:
        status = self._status_reader().of_record(partition, offset, record)
        if record.erased:  # its id, and why it was refused, went with its content: what stands there now is no text
            status = msgspec.structs.replace(status, message_id="", status=DeliveryStatus.ERASED, rejection=None)
        return LoggedEvent(partition, offset, record, status)


def statuses_of(event: EventStatus) -> set[str]:
    """Return every status the event has: over its destinations, or its own where no destination has a say."""
    statuses: set[str] = {destination.status for destination in event.destinations}
    return statuses | {event.status} if event.status else statuses


def parse_cursor(text: str) -> dict[int, int]:
    """``partition:offset[,partition:offset…]`` as offsets; raise Problem for anything else."""
    positions: dict[int, int] = {}
    parts = text.split(",")
    for part in parts[:PARTITIONS_PER_CURSOR_MAX]:
        partition, _, offset = part.partition(":")
        if not (partition.isdecimal() and offset.isdecimal() and len(partition) < 6 and len(offset) < 20):
            raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
        positions[int(partition)] = int(offset)
    return positions
