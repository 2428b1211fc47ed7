"""What becomes of a request: its route, its source, its events' records, and the answer once they are durable."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from hookline.collect import answers
from hookline.collect.answers import BY_CODE, REJECTIONS, WARNINGS_MAX
from hookline.collect.auth import WriteKeyRefused, WriteKeys, query_key
from hookline.collect.batch import BATCH, Batch, about_library, records_of, write_key_of
from hookline.collect.browsers import BrowserAddresses
from hookline.collect.cors import ANSWER_HEADERS, CALL_METHODS, FETCH_METHODS, FETCH_PREFLIGHT, PREFLIGHT
from hookline.collect.counters import Counters
from hookline.collect.decode import BadBody, TooLarge, inflate, load
from hookline.collect.downloads import Downloads
from hookline.collect.exchange import Exchange
from hookline.collect.head import HEAD, RAW_HEAD, Head, read_leniently
from hookline.collect.item import Arrival, record_of, unreadable
from hookline.collect.known_heads import KnownHeads
from hookline.collect.limits import GZIP_OVERHEAD_BYTES, NESTING_LEVELS_MAX, RETRY_AFTER_SECONDS
from hookline.collect.pixel import event_of
from hookline.collect.rate_limits import RateLimited, RateLimits
from hookline.collect.router import ROUTES, Kind, Route, keyed, with_single_slashes
from hookline.collect.suppression import concerns
from hookline.connections.model import Snapshot, Source
from hookline.events.warnings import are_times_unreadable, warnings_of
from hookline.journal.port import JournalAway, JournalError, JournalFailed, JournalFull
from hookline.journal.record import Record
from hookline.privacy.suppressed import Suppressed
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.collect.budget import Verdict

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_CALL_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: %b\r\n" % CALL_METHODS + ANSWER_HEADERS)
_FETCH_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: %b\r\n" % FETCH_METHODS + ANSWER_HEADERS)
_PROBE_NOT_ALLOWED = answers.error("method_not_allowed", b"Allow: GET, HEAD\r\n")
_SINGLE, _BATCH = Kind.SINGLE, Kind.BATCH


class Appends(Protocol):
    """The journal's appender, as far as the hot path needs it."""

    def append_soon(self, records: list[Record], done: Callable[[BaseException | None], None]) -> None:
        """Store the records; call ``done`` once they are durable, or with what went wrong."""


class Intake:
    """Judges requests: ``screen`` when the head is read, ``take`` when the body is."""

    def __init__(
        self,
        appender: Appends,
        counters: Counters,
        clock: Callable[[], float],
        downloads: Downloads,
        limits: RateLimits | None = None,
    ) -> None:
        self._appender = appender
        self._counters = counters
        self._clock = clock
        self._downloads = downloads
        self._all_limits = limits
        self._limits: RateLimits | None = None
        self._keys: WriteKeys | None = None
        self._failed = False
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
        self.refusing: Verdict | None = None
        """Whose events are refused because the journal's bytes are spent; None for nobody's."""
        self.suppressed: Suppressed | None = None
        """Whose events are not stored; None for nobody."""

    @property
    def ready(self) -> bool:
        """Whether a snapshot is loaded and the journal takes records, as far as is known."""
        spent = self.refusing is not None and self.refusing.everybody
        return self.takes and not (self.away or spent) and self._clock() >= self._full_until

    def _readiness(self) -> bytes:
        if not self.ready:
            return answers.NOT_READY
        return answers.READY_WITH_KEPT if self.kept else answers.READY

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Use these sources from now on."""
        self._keys = WriteKeys(snapshot)
        if self._all_limits is not None:
            self._limits = self._all_limits if self._all_limits.set_snapshot(snapshot) else None
        self.takes = not self._failed
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
        """Answer a whole request of a collection path, at once or when its events are durable."""
        route, keys, limits = exchange.route, self._keys, self._limits
        events, size_bytes = 1, len(body)
        assert route is not None, "a request without a route has a verdict"
        assert keys is not None, "a request that came before the first snapshot has a verdict"
        try:
            if limits is not None:
                limits.check(exchange)
            if exchange.gzipped:
                size_bytes = exchange.body_bytes_max - GZIP_OVERHEAD_BYTES  # where it is too large
                body = inflate(body, size_bytes)
                size_bytes = len(body)
            if route.kind is _SINGLE:
                self._take_single(exchange, route, keys, body)
            elif route.kind is _BATCH:
                events = self._take_batch(exchange, keys, body)
            else:
                body = exchange.query
                self._take_single(exchange, route, keys, event_of(body), answers.PIXEL)
        except RateLimited as limited:
            self._refuse_for_now(exchange, limited)
            return
        except TooLarge:
            exchange.respond(BY_CODE[route.code_too_large])
        except BadBody as bad:
            if exchange.source is not None and bad.code in REJECTIONS:
                self._keep(unreadable(body, self._arrival(exchange, exchange.source), route.type, bad.code))
            self._refuse(exchange, bad.code)
        except WriteKeyRefused as refused:
            self._refuse(exchange, refused.code)
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the connection or the others
            logger().error("request_failed", path=exchange.path.decode(), exc_info=error)
            self._refuse(exchange, "internal_error")
        if limits is not None:
            limits.spend(exchange, events, size_bytes)

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

    def _take_single(
        self, exchange: Exchange, route: Route, keys: WriteKeys, body: bytes, picture: bytes | None = None
    ) -> None:
        head, body, refused, doubtful = self._read_single(body)
        source = exchange.source or self._found(exchange, keys.of_key(head.write_key or query_key(exchange.query)))
        arrival = self._arrival(exchange, source)
        if picture is None:  # who looks at a picture may be a mail provider's proxy
            member = self.browser_addresses.member(exchange, source, lambda: [body])
            if member:
                arrival.envelope = b'{"context":{%b}}' % member
        record = record_of(body, head, arrival, route.type, refused)
        dropped = self.suppressed is not None and concerns(self.suppressed, head)
        if record.rejection is None:
            warnings = warnings_of(body) if doubtful else ()
            for each in warnings:
                self._counters.warnings[each.code] += 1
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
        """The head of an event, its bytes, the code that refuses it, and whether a warning may be due."""
        body = body.strip(b" \t\r\n")
        try:
            head, body, repaired = load(body, HEAD, NESTING_LEVELS_MAX)
            refused, doubtful = None, are_times_unreadable(head.timestamp, head.original_timestamp, head.sent_at)
        except msgspec.ValidationError:
            try:
                raw, body, repaired = load(body, RAW_HEAD, NESTING_LEVELS_MAX)
            except msgspec.ValidationError:
                raise BadBody("invalid_body") from None
            head, refused = read_leniently(raw)
            doubtful = True
        self._counters.repaired_surrogates += repaired
        return head, body, refused, doubtful

    def _found(self, exchange: Exchange, source: Source) -> Source:
        """Note the source that a body names."""
        exchange.source = source
        if self._limits is not None:
            self._limits.check_source(source)
        return source

    def _take_batch(self, exchange: Exchange, keys: WriteKeys, body: bytes) -> int:
        """Take a batch; return how many events it holds."""
        try:
            batch, body, repaired = load(body, BATCH, None)
        except msgspec.ValidationError:
            raise BadBody("invalid_body") from None
        self._counters.repaired_surrogates += repaired
        source = exchange.source or self._found(exchange, keys.of_key(self._batch_key(exchange, batch)))
        if len(body) > source.batch_bytes:
            raise TooLarge
        arrival = self._arrival(exchange, source)
        arrival.batch_bytes_max = source.batch_bytes
        arrival.address = self.browser_addresses.member(exchange, source, lambda: about_library(batch))
        records, rejected, warnings, dropped = records_of(batch, body, arrival, self.suppressed)
        accepted = len(batch.batch or ()) - len(rejected)
        for each in warnings[:WARNINGS_MAX]:
            self._counters.warnings[each.code] += 1
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

    def _drop(self, exchange: Exchange, events: int) -> None:
        """Count events of suppressed people: they are answered like all others, and nothing of them is kept."""
        if exchange.source is not None:
            self._counters.suppressed[exchange.source.id] += events
            self._counters.heard.add(exchange.source.id)

    def _append(
        self, exchange: Exchange, records: list[Record], answer: bytes, accepted: int, rejected: Sequence[str]
    ) -> None:
        if self.refusing is not None and self.refusing.refuses(records[0].source):
            self._counters.over_budget[records[0].source] += 1
            self._refuse(exchange, "journal_budget_spent")
            return
        done = partial(self._stored, exchange, answer, accepted, rejected)
        try:
            self._appender.append_soon(records, done)
        except JournalError as error:
            done(error)

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
        try:
            self._appender.append_soon([record], self._kept)
        except JournalError as error:
            self._note_failure(error)

    def _kept(self, error: BaseException | None) -> None:
        if error is not None:
            self._note_failure(error)
