"""Turn a request into its answer: its route, its source, its events' records, and the answer once they are durable."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

import msgspec

from hookline.collect.auth import WriteKeyRefused, WriteKeys, query_key
from hookline.collect.batch import (
    Batch,
    BrowserAddresses,
    about_library,
    is_of_browser,
    read_batch,
    records_in_steps,
    records_of,
    write_key_of,
)
from hookline.collect.counters import Counters
from hookline.collect.decode import (
    GZIP_OVERHEAD_BYTES,
    NESTING_LEVELS_MAX,
    RETRY_AFTER_SECONDS,
    BadBody,
    TooLarge,
    event_of,
    inflate,
    inflate_in_steps,
    load,
)
from hookline.collect.fair_turns import FairTurns, Loop, Who
from hookline.collect.http import answers
from hookline.collect.http.answers import (
    ANSWER_HEADERS,
    BY_CODE,
    CALL_METHODS,
    FETCH_METHODS,
    FETCH_PREFLIGHT,
    PREFLIGHT,
    REJECTIONS,
    WARNINGS_MAX,
    ListedWarning,
    RejectedItem,
)
from hookline.collect.http.clients import ClientNetworks
from hookline.collect.http.downloads import Downloads
from hookline.collect.http.request import Exchange, KnownHeads
from hookline.collect.http.router import ROUTES, Kind, Route, keyed, with_single_slashes
from hookline.collect.item import HEAD, RAW_HEAD, Arrival, Head, concerns, read_leniently, record_of, unreadable
from hookline.collect.rate_limits import RateLimited, RateLimits
from hookline.connections.model import Snapshot, Source
from hookline.events.warnings import EventWarning, warnings_of
from hookline.journal.port import JournalAway, JournalBusy, JournalFailed, JournalFull
from hookline.journal.record import Record
from hookline.privacy.suppressions import Suppressed
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.collect.budget import Verdict

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_CALL_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: %b\r\n" % CALL_METHODS + ANSWER_HEADERS)
_FETCH_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: %b\r\n" % FETCH_METHODS + ANSWER_HEADERS)
_PROBE_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: GET, HEAD\r\n")
_SINGLE, _BATCH = Kind.SINGLE, Kind.BATCH
STEP_BYTES = 32 * 1024
STEP_EVENTS = 32
"""A step of a batch that waits for its turn: some 300 µs of inflation, of looking for nesting or of making records."""


class Appends(Protocol):
    """The journal's appender, as far as the hot path needs it."""

    def append_soon(self, records: list[Record], done: Callable[[BaseException | None], None]) -> None:
        """Store the records; call ``done`` once they are durable, or with what went wrong."""


class PartsStored:
    """Waits until all parts of a batch are durable, or one is not; ``error`` is the first that was met."""

    __slots__ = ("_finish", "_open", "error")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._open = 1
        self._finish: Callable[[BaseException | None], None] | None = None

    def begin(self) -> None:
        """Expect one part more."""
        self._open += 1

    def done(self, error: BaseException | None) -> None:
        """Take what became of one part."""
        self.error = self.error or error
        self._open -= 1
        if not self._open and self._finish is not None:
            self._finish(self.error)

    def finish(self, finish: Callable[[BaseException | None], None]) -> None:
        """Expect no more parts; ``finish`` is called once, when all are there."""
        self._finish = finish
        self.done(None)


class Intake:
    """Judges requests: ``screen`` when the head is read, ``take`` when the body is."""

    def __init__(
        self,
        appender: Appends,
        counters: Counters,
        clock: Callable[[], float],
        downloads: Downloads,
        limits: RateLimits | None = None,
        loop: Callable[[], Loop] = asyncio.get_running_loop,
    ) -> None:
        self._appender = appender
        self._counters = counters
        self._clock = clock
        self._downloads = downloads
        self._all_limits = limits
        self._fair = FairTurns(appender.append_soon, clock, loop=loop)
        self._limits: RateLimits | None = None
        self._keys: WriteKeys | None = None
        self._failed = False
        self._stands_by = False
        self._full_until = 0.0
        self.known_heads = KnownHeads()
        self.takes = False
        """Whether events are taken at all; if not, ``screen`` says why."""
        self.away = False
        """Whether the journal is known not to take records just now: events are refused one by one."""
        self.kept = False
        """Whether the snapshot is one that was kept on the disk, which may be old."""
        self.browser_addresses = BrowserAddresses(())
        """Where the addresses of browsers are found, by the proxies that are trusted."""
        self.client_networks = ClientNetworks(())
        """Whose a request is that a trusted proxy hands on."""
        self.refusing: Verdict | None = None
        """Whose events are refused because the journal's bytes are spent; None for nobody's."""
        self.suppressed: Suppressed | None = None
        """Whose events are not stored; None for nobody."""
        self.stops = False
        """Whether new calls should go elsewhere; those that come all the same are taken."""

    @property
    def ready(self) -> bool:
        """Return whether a snapshot is loaded and the journal takes records, as far as is known."""
        spent = self.refusing is not None and self.refusing.everybody
        return self.takes and not (self.away or spent or self.stops) and self._clock() >= self._full_until

    def _readiness(self) -> bytes:
        if not self.ready:
            if self.stops:
                return answers.NOT_READY_STOPPING
            return answers.NOT_READY_AWAY if self.takes and self.away else answers.NOT_READY
        return answers.READY_WITH_KEPT if self.kept else answers.READY

    def set_snapshot(self, snapshot: Snapshot, may_be_old: bool = False) -> None:
        """Use these sources from now on; ``may_be_old`` as for ``doubt``."""
        self._keys = WriteKeys(snapshot, may_be_old)
        if self._all_limits is not None:
            self._limits = self._all_limits if self._all_limits.set_snapshot(snapshot) else None
        self._decide()

    def doubt(self, may_be_old: bool) -> None:
        """Refuse other write keys than those known for good or, while these may be old, for now."""
        if self._keys is not None:
            self._keys.may_be_old = may_be_old

    def suppress(self, suppressed: Suppressed | None) -> None:
        """Store no events of these people from now on; None for nobody. What was taken before is appended at once, so
        that whoever asks for the journal's end behind this finds all there is of them before it."""
        self.suppressed = suppressed
        self._fair.patient.hand_over(inf)

    def stand_by(self, stands_by: bool) -> None:
        """Take no events, for whose are to be stored cannot be told; or take them again."""
        if stands_by is not self._stands_by:
            self._stands_by = stands_by
            self._decide()

    def _decide(self) -> None:
        self.takes = self._keys is not None and not (self._failed or self._stands_by)
        self.known_heads.forget()

    def screen(self, exchange: Exchange) -> None:
        """Find the route and the header's source; settle the answer when the head alone decides it."""
        route, key = ROUTES.get(exchange.path), b""
        if route is None and b"//" in exchange.path:
            exchange.path = with_single_slashes(exchange.path)
            route = ROUTES.get(exchange.path)
        if route is None:
            found = keyed(exchange.path)
            if found is None:
                exchange.verdict = answers.NOT_FOUND
                return
            route, key = found
        exchange.route = route
        if route.collects:
            exchange.body_bytes_max = route.body_bytes_max
            exchange.verdict = self._screen_call(exchange, route)
        elif route.fetched:
            exchange.verdict = self._screen_fetch(exchange, route, key)
        elif exchange.method not in (b"GET", b"HEAD"):
            exchange.verdict = _PROBE_NOT_ALLOWED
        elif route.kind is Kind.ALIVE:
            exchange.verdict = answers.ALIVE
        else:
            exchange.verdict = self._readiness()

    def take(self, exchange: Exchange, body: bytes) -> None:
        """Answer a whole request of a collection path, at once or when its events are durable.

        While several sources send, what is beyond a source's share of the loop waits for its turn (``fair_turns``).
        """
        fair, source, route = self._fair, exchange.source, exchange.route
        assert route is not None, "a request without a route has a verdict"
        who: Who = source.id if source is not None else exchange.line.address
        if fair.contended or who is not fair.last:
            who = exchange.line.turn_of(who if source is not None else self._client(exchange))
            if fair.must_wait(who, inf if route.kind is _BATCH else len(body)):
                held_bytes = len(body) + exchange.head_bytes
                if not fair.add(who, self._take_in_steps(exchange, route, body), held_bytes):
                    self._refuse(exchange, "overloaded")
                return
        if route.kind is _SINGLE and not exchange.gzipped:
            self._take_now(exchange, route, body)
            return
        began = self._clock()
        self._take_now(exchange, route, body)
        fair.count(self._clock() - began)

    def _client(self, exchange: Exchange) -> Who:
        """Return whose a request is while its source is not known."""
        address = exchange.line.address
        if address is None or not address.trusted:
            return address
        return self.client_networks.of(address, exchange.headers)

    def _take_now(self, exchange: Exchange, route: Route, body: bytes) -> None:
        limits, events, size_bytes = self._limits, 1, len(body)
        try:
            if limits is not None:
                limits.check(exchange)
            if exchange.gzipped:
                size_bytes = exchange.body_bytes_max - GZIP_OVERHEAD_BYTES  # where it is too large
                body = inflate(body, size_bytes)
                size_bytes = len(body)
            if route.kind is _SINGLE:
                self._take_single(exchange, route, body)
            elif route.kind is _BATCH:
                events = self._take_batch(exchange, body)
            else:
                body = exchange.query
                self._take_single(exchange, route, event_of(body), answers.PIXEL)
        except RateLimited as limited:
            self._refuse_for_now(exchange, limited)
            return
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the connection or the others
            self._fail(exchange, route, body, error)
        if limits is not None:
            limits.spend(exchange, events, size_bytes)
        exchange.let_go()

    def _take_in_steps(self, exchange: Exchange, route: Route, body: bytes) -> Iterator[None]:
        """Do what ``_take_now`` does; a batch, which may take long, in steps that are short."""
        if route.kind is not _BATCH:
            self._take_now(exchange, route, body)
            return
        limits, events, size_bytes = self._limits, 1, len(body)
        try:
            if limits is not None:
                limits.check(exchange)
            if exchange.gzipped:
                pieces: list[bytes] = []
                size_bytes = exchange.body_bytes_max - GZIP_OVERHEAD_BYTES  # where it is too large
                for piece in inflate_in_steps(body, size_bytes, STEP_BYTES):
                    pieces.append(piece)
                    yield
                body = b"".join(pieces)
                size_bytes = len(body)
            batch, readable, arrival = self._read_batch(exchange, body)
            events = len(batch.batch or ())
            yield
            yield from self._store_in_steps(exchange, batch, readable, arrival)
        except RateLimited as limited:
            self._refuse_for_now(exchange, limited)
            return
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(exchange, route, body, error)
        if limits is not None:
            limits.spend(exchange, events, size_bytes)
        exchange.let_go()

    def _store_in_steps(self, exchange: Exchange, batch: Batch, body: bytes, arrival: Arrival) -> Iterator[None]:
        """Append a batch in parts; its answer waits for the last of them. One that fails ends it: 503, sent again."""
        if self._is_over_budget(exchange, arrival.source):
            return
        rejected: list[RejectedItem] = []
        warnings: list[ListedWarning] = []
        dropped, parts, waits = 0, PartsStored(), False
        for part in records_in_steps(batch, body, arrival, lambda: self.suppressed, STEP_EVENTS, STEP_BYTES):
            if part is not None:
                rejected += part.rejected
                warnings += part.warnings[: WARNINGS_MAX + 1 - len(warnings)]
                dropped += part.dropped
                if part.records:
                    parts.begin()
                    waits = waits or self._fair.serves_greedy  # no part overtakes the one before
                    self._try_append(part.records, parts.done, waits)
            if parts.error is not None:
                break
            yield
        self._count(warnings[:WARNINGS_MAX])
        if dropped:
            self._drop(exchange, dropped)
        accepted = len(batch.batch or ()) - len(rejected)
        answer = answers.batch_accepted(accepted, rejected, warnings)
        codes = [item.code for item in rejected]
        parts.finish(partial(self._stored, exchange, answer, accepted - dropped, codes))

    def _fail(self, exchange: Exchange, route: Route, body: bytes, error: Exception) -> None:
        """Answer a request that cannot be taken."""
        if isinstance(error, TooLarge):
            exchange.respond(BY_CODE[route.code_too_large])
        elif isinstance(error, BadBody):
            if exchange.source is not None and error.code in REJECTIONS:
                # Whom it names is not known: while anybody is suppressed, nothing of it is kept.
                is_shown = self.suppressed is None
                arrival = self._arrival(exchange, exchange.source)
                self._keep(unreadable(body, arrival, route.type, error.code, is_shown))
            self._refuse(exchange, error.code)
        elif isinstance(error, WriteKeyRefused):
            self._refuse(exchange, error.code)
        else:
            logger().error("request_failed", path=exchange.path.decode(), exc_info=error)
            self._refuse(exchange, "internal_error")

    def _screen_call(self, exchange: Exchange, route: Route) -> bytes | None:
        if exchange.method == b"OPTIONS":
            return PREFLIGHT
        if exchange.method != b"POST":
            return _CALL_NOT_ALLOWED
        if route.kind is Kind.TELEMETRY:
            self._counters.dropped_telemetry += 1
            return answers.DROPPED
        if self._keys is None or not self.takes:
            return BY_CODE["not_ready"]
        if self._limits is not None:
            try:
                self._limits.check(exchange)
            except RateLimited as limited:
                return self._for_now(exchange, limited)
        try:
            exchange.source = self._keys.of_headers(exchange.headers)
        except WriteKeyRefused as refused:
            if self._limits is not None:
                self._limits.spend(exchange, 1, 0)
            return BY_CODE[refused.code]
        if route.kind is _BATCH:
            # Without a key in the head the source is known only when the body is there: `_take_batch` looks again.
            exchange.body_bytes_max = exchange.source.batch_bytes if exchange.source else self._keys.batch_bytes_max
        encoding = exchange.headers.get(b"content-encoding")
        if encoding is not None:
            encoding = encoding.lower()
            if encoding in (b"gzip", b"x-gzip"):
                exchange.gzipped = True
                exchange.body_bytes_max += GZIP_OVERHEAD_BYTES
            elif encoding not in (b"identity", b""):
                return BY_CODE["unsupported_encoding"]
        return None

    def _screen_fetch(self, exchange: Exchange, route: Route, key: bytes) -> bytes | None:
        if exchange.method == b"OPTIONS":
            return FETCH_PREFLIGHT
        if exchange.method not in (b"GET", b"HEAD"):
            return _FETCH_NOT_ALLOWED
        if route.kind is Kind.PIXEL:
            return self._screen_pixel(exchange, route)
        if self._keys is None:
            return BY_CODE["not_ready"]
        try:
            return self._downloads.answer(exchange, route, key, self._keys)
        except WriteKeyRefused as refused:
            return BY_CODE[refused.code]

    def _screen_pixel(self, exchange: Exchange, route: Route) -> bytes | None:
        if exchange.method == b"HEAD":
            return answers.PIXEL  # whoever only asks about a picture has not looked at it
        if self._keys is None or not self.takes:
            return self._picture("not_ready")
        exchange.body_bytes_max = route.body_bytes_max
        try:
            exchange.source = self._keys.of_headers(exchange.headers)
        except WriteKeyRefused as refused:
            return self._picture(refused.code)
        return None

    def _take_single(self, exchange: Exchange, route: Route, body: bytes, picture: bytes | None = None) -> None:
        head, body, refused, doubtful = self._read_single(body)
        source = exchange.source or self._found(exchange, head.write_key or query_key(exchange.query))
        arrival = self._arrival(exchange, source)
        # Who looks at a picture may be a mail provider's proxy.
        if picture is None and (b"origin" in exchange.headers or (source.type == "web" and is_of_browser(body))):
            member = self.browser_addresses.member(exchange)
            if member:
                arrival.envelope = b'{"context":{%b}}' % member
        record, is_time_unreadable = record_of(body, head, arrival, route.type, refused)
        dropped = self.suppressed is not None and concerns(self.suppressed, head)
        if record.rejection is None:
            warnings = warnings_of(body) if doubtful or is_time_unreadable else ()
            if warnings:
                self._count(warnings)
            answer = picture or answers.accepted(record.message_id, warnings)
            if dropped:
                self._drop(exchange, 1)
                exchange.respond(answer)
            else:
                self._append(exchange, [record], answer, 1, ())
        else:
            if not dropped:
                self._keep(record)
            self._refuse(exchange, record.rejection.code)

    def _read_single(self, body: bytes) -> tuple[Head, bytes, str | None, bool]:
        """Return the head of an event, its bytes, the code that refuses it, and whether a field is of another type."""
        body = body.strip(b" \t\r\n")
        try:
            head, body, repaired = load(body, HEAD, NESTING_LEVELS_MAX)
            refused, doubtful = None, False
        except msgspec.ValidationError:
            try:
                raw, body, repaired = load(body, RAW_HEAD, NESTING_LEVELS_MAX)
            except msgspec.ValidationError:
                raise BadBody("invalid_body") from None
            head, refused = read_leniently(raw)
            doubtful = True
        self._counters.repaired_surrogates += repaired
        return head, body, refused, doubtful

    def _found(self, exchange: Exchange, key: object) -> Source:
        """Note the source of a write key that stands in the body; raise WriteKeyRefused, RateLimited."""
        assert self._keys is not None, "a request that came before the first snapshot has a verdict"
        exchange.source = source = self._keys.of_key(key)
        if self._limits is not None:
            self._limits.check_source(source)
        return source

    def _read_batch(self, exchange: Exchange, body: bytes) -> tuple[Batch, bytes, Arrival]:
        batch, body, repaired = read_batch(body)
        self._counters.repaired_surrogates += repaired
        source = exchange.source or self._found(exchange, self._batch_key(exchange, batch))
        if len(body) > source.batch_bytes:
            raise TooLarge
        arrival = self._arrival(exchange, source)
        arrival.batch_bytes_max = source.batch_bytes
        if b"origin" in exchange.headers or (source.type == "web" and any(map(is_of_browser, about_library(batch)))):
            arrival.address = self.browser_addresses.member(exchange)
        return batch, body, arrival

    def _take_batch(self, exchange: Exchange, body: bytes) -> int:
        """Take a batch; return how many events it holds."""
        batch, body, arrival = self._read_batch(exchange, body)
        records, rejected, warnings, dropped = records_of(batch, body, arrival, self.suppressed)
        accepted = len(batch.batch or ()) - len(rejected)
        self._count(warnings[:WARNINGS_MAX])
        if dropped:
            self._drop(exchange, dropped)
        answer = answers.batch_accepted(accepted, rejected, warnings)
        if records:
            self._append(exchange, records, answer, accepted - dropped, [item.code for item in rejected])
        else:
            exchange.respond(answer)
        return len(batch.batch or ())

    @staticmethod
    def _batch_key(exchange: Exchange, batch: Batch) -> object:
        return write_key_of(batch) or query_key(exchange.query)

    @staticmethod
    def _arrival(exchange: Exchange, source: Source) -> Arrival:
        trace = exchange.headers.get(b"traceparent")
        if trace is None or _TRACEPARENT.fullmatch(trace) is None:
            return Arrival(source.id, int(time.time() * 1000))
        return Arrival(source.id, int(time.time() * 1000), trace.decode())

    def _count(self, warnings: Sequence[EventWarning | ListedWarning]) -> None:
        for each in warnings:
            self._counters.warnings[each.code] += 1

    def _drop(self, exchange: Exchange, events: int) -> None:
        """Count events of suppressed people: they are answered like all others, and nothing of them is kept."""
        if exchange.source is not None:
            self._counters.suppressed[exchange.source.id] += events
            self._counters.heard.add(exchange.source.id)

    def _append(
        self, exchange: Exchange, records: list[Record], answer: bytes, accepted: int, rejected: Sequence[str]
    ) -> None:
        if self.refusing is None or not self._is_over_budget(exchange, records[0].source):
            done = partial(self._stored, exchange, answer, accepted, rejected)
            fair = self._fair
            if fair.contended or fair.serves_greedy:
                self._try_append(records, done, fair.serves_greedy)
            else:
                self._appender.append_soon(records, done)

    def _is_over_budget(self, exchange: Exchange, source: str) -> bool:
        """Return whether the journal's bytes are spent for a source; the request is refused then."""
        if self.refusing is None or not self.refusing.refuses(source):
            return False
        self._counters.over_budget[source] += 1
        self._refuse(exchange, "journal_budget_spent")
        return True

    def _try_append(self, records: list[Record], done: Callable[[BaseException | None], None], waits: bool) -> None:
        """Append records, now or, where they have to wait, behind those that do already."""
        if waits:
            self._fair.patient.hold(records, done)
        else:
            if self._fair.contended:
                self._fair.step_aside()
            self._appender.append_soon(records, done)

    def _stored(
        self, exchange: Exchange, answer: bytes, accepted: int, rejected: Sequence[str], error: BaseException | None
    ) -> None:
        if error is not None:
            self._refuse(exchange, self._note_failure(error))
            return
        self._counters.accepted += accepted
        if accepted and exchange.source is not None:
            self._counters.heard.add(exchange.source.id)
        for code in rejected:
            self._counters.rejected[code] += 1
        exchange.respond(answer)

    def _refuse(self, exchange: Exchange, code: str) -> None:
        pixel = exchange.route is not None and exchange.route.kind is Kind.PIXEL
        exchange.respond(self._picture(code) if pixel else BY_CODE[code])

    def _refuse_for_now(self, exchange: Exchange, limited: RateLimited) -> None:
        exchange.respond(self._for_now(exchange, limited))

    def _for_now(self, exchange: Exchange, limited: RateLimited) -> bytes:
        if limited.by_address or exchange.source is None:
            self._counters.rate_limited_addresses += 1
        else:
            self._counters.rate_limited[exchange.source.id] += 1
        if exchange.route is not None and exchange.route.kind is Kind.PIXEL:
            return self._picture("rate_limited")
        return answers.rate_limited(limited.retry_seconds)

    def _picture(self, code: str) -> bytes:
        self._counters.refused_pixels[code] += 1  # the status does not tell
        return answers.PIXEL_BY_CODE[code]

    def _note_failure(self, error: BaseException) -> str:
        if isinstance(error, JournalFull):
            # Not longer than a client is told to wait: a load balancer must find us ready again without our traffic.
            # Who sends more at once than may wait for the disk says nothing about the calls of others.
            if not isinstance(error, JournalBusy):
                self._full_until = self._clock() + RETRY_AFTER_SECONDS
            return JournalAway.code if isinstance(error, JournalAway) else JournalFull.code
        if isinstance(error, JournalFailed):
            self._failed = True
            self.takes = False
        return "journal_failed"

    def _keep(self, record: Record) -> None:
        # For inspection only: the client is not made to wait for it, and it is not worth a 503.
        rejection = record.rejection
        if rejection is not None:
            self._counters.rejected[rejection.code] += 1
        if self.refusing is not None and self.refusing.refuses(record.source):
            return
        self._appender.append_soon([record], self._kept)

    def _kept(self, error: BaseException | None) -> None:
        if error is not None:
            self._note_failure(error)
