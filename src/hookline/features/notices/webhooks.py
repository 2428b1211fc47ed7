"""Sends notices to the URLs of ``notices.webhooks``, signed like events: once when opened, once when resolved.

What is to be sent is in the notices' rows, so it survives a restart. Each URL is tried a few times; what it came to is
logged and shown on the notice. No lane of a destination is involved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.connections.secrets import SecretMissing, check_secret, resolve
from hookline.database.sqlite import engine as sqlite
from hookline.events.canonical import canonicalize
from hookline.events.signature import Signer
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.notices.log import Notice, NoticeLog, Unsent
from hookline.outcomes.outcome import FINAL, Outcome
from hookline.settings import Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.deliver.send.pool import Exchanges

RETRY_SECONDS = (5.0, 30.0, 120.0, 600.0)
"""Pauses between the tries; after the last one a URL is given up."""
AT_ONCE_MAX = 20
"""Notices sent at the same time."""
POLL_SECONDS = 5.0
BODY_VERSION = 1


class InvalidNoticeWebhooks(ValueError):
    """A URL or the secret of ``notices`` cannot be used; the message names it and says what to write."""

    code = "invalid_notice_webhooks"


class Answered(NamedTuple):
    """Hold what a request came to."""

    outcome: Outcome
    status: int | None = None
    error: str | None = None


class Tried(NamedTuple):
    """Hold what came of sending a notice: the URLs left to try, why others failed for good, why these did, and when
    they are tried."""

    unsent: Unsent
    left: Sequence[str]
    failed: str
    error: str
    due_ms: int | None


Key = tuple[int, bool, int]
"""A notice, whether it is over, and how often it was sent as such."""


class NoticeWebhooks:
    """The one sender."""

    def __init__(
        self,
        settings: Settings,
        log: NoticeLog,
        own_metrics: OwnMetrics,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._urls = checked(settings)
        self._settings = settings
        self._log = log
        self._own_metrics = own_metrics
        self._sender: Exchanges | None = None
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tried: dict[Key, Tried] = {}
        """What is not written yet, because the disk refuses it. It is not sent again meanwhile."""

    async def run_forever(self) -> None:
        """Send what is due until cancelled; without URLs there is nothing to do."""
        if not self._urls:
            return
        self._loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            try:
                await self.send_due()
            except sqlite.Error as error:  # the disk is full: it is looked again
                logger().warning("notices_not_written", error=str(error))
            except Exception:  # noqa: BLE001 - the loop's border: a fault of ours must not end all sending
                logger().error("notice_webhooks_failed", exc_info=True)
            try:
                await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)
            except TimeoutError:
                pass

    def wake(self) -> None:
        """Something may be due; may be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def send_due(self) -> None:
        """Send everything that is due now; what came of it is written again where the disk refused that."""
        while due := await asyncio.to_thread(self._due):
            await asyncio.gather(*map(self._send, due))
        for key in list(self._tried):
            await self._write(key)

    def _due(self) -> list[Unsent]:
        due = self._log.due(self._now_ms(), AT_ONCE_MAX + len(self._tried))
        return [unsent for unsent in due if _key(unsent) not in self._tried]

    async def _send(self, unsent: Unsent) -> None:
        self._tried[_key(unsent)] = await self._send_once(unsent)
        with suppress(sqlite.Error):
            await self._write(_key(unsent))

    async def _write(self, key: Key) -> None:
        await asyncio.to_thread(self._log.sent, *self._tried[key])
        del self._tried[key]

    async def _send_once(self, unsent: Unsent) -> Tried:
        # A URL that was taken out of the settings is told no more.
        urls = [url for url in unsent.urls if url in self._urls]
        answers = await asyncio.gather(*(self._send_to(url, unsent.notice) for url in urls))
        failed = [(url, answer) for url, answer in zip(urls, answers, strict=True) if not _succeeded(answer)]
        left = [url for url, answer in failed if answer.outcome not in FINAL]
        due_ms = None
        if left and unsent.sends < len(self._retry_seconds):
            due_ms = self._now_ms() + int(self._retry_seconds[unsent.sends] * 1000)
        errors = {url: f"{_host(url)}: {_in_words(answer)}" for url, answer in failed}
        for_good = [unsent.failed, *(error for url, error in errors.items() if url not in left)]
        error = "; ".join(errors[url] for url in left)
        return Tried(unsent, left, "; ".join(filter(None, for_good)), error, due_ms)

    async def _send_to(self, url: str, notice: Notice) -> Answered:
        try:
            body = body_of(notice)
            answer = await self._send_one(self._urls[url], self._headers(notice, body), body)
        except (SecretMissing, OSError) as error:  # the secret's file, or deliver.ca_file, is not there
            answer = Answered(Outcome.CONNECTION_FAILED, error=f"nothing was sent: {error}")
        self._own_metrics.notice_webhooks[answer.outcome] += 1
        if not _succeeded(answer):
            logger().warning("notice_webhook_failed", notice=notice.id, host=_host(url), reason=_in_words(answer))
        return answer

    def _headers(self, notice: Notice, body: bytes) -> dict[str, str]:
        headers = {
            "User-Agent": f"{self._settings.service_name}/1.0",
            "X-Message-Id": f"notice-{notice.id}-{'resolved' if notice.resolved_at else 'opened'}",
        }
        if self._settings.notices.secret:
            secret = resolve(self._settings.notices.secret, self._settings)
            headers["X-Signature"] = Signer(secret).hex(body).decode()
        return headers

    async def _send_one(self, url: ReceiverUrl, headers: dict[str, str], body: bytes) -> Answered:
        # Here: only who has URLs for notices pays for the sender's modules.
        from hookline.deliver.send.pool import Exchanges
        from hookline.deliver.send.proxy import proxy_of
        from hookline.deliver.send.request import request_of
        from hookline.deliver.send.resolver import Guard, Resolver
        from hookline.deliver.send.tls import tls_context

        if self._sender is None:
            deliver = self._settings.deliver
            resolver = Resolver(Guard(deliver.allow_networks))
            self._sender = Exchanges(resolver, tls_context(deliver.ca_file), deliver.timeout, proxy_of(self._settings))
        exchange = await self._sender.send(url, request_of(url, headers, body))
        return Answered(exchange.outcome, exchange.status, exchange.error)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _key(unsent: Unsent) -> Key:
    return unsent.notice.id, unsent.notice.resolved_at is not None, unsent.sends


def checked(settings: Settings) -> dict[str, ReceiverUrl]:
    """Return the URLs as they are sent to; raise InvalidNoticeWebhooks for one that cannot be used, or for the
    secret."""
    urls: dict[str, ReceiverUrl] = {}
    for url in settings.notices.webhooks:
        try:
            urls[url] = parse_receiver_url(url)
        except ValueError as error:
            raise InvalidNoticeWebhooks(f"setting 'notices.webhooks': {url}: {error}") from None
    if settings.notices.secret:
        try:
            check_secret(settings.notices.secret)
        except ValueError as error:
            raise InvalidNoticeWebhooks(f"setting 'notices.secret': {error}") from None
    return urls


def body_of(notice: Notice) -> bytes:
    """Return the request's body, in the form that JavaScript gives it, so that receivers may verify its bytes as
    they came or parsed and written again."""
    shown = {
        "version": BODY_VERSION,
        "type": "notice",
        "id": notice.id,
        "kind": notice.kind,
        "severity": notice.severity,
        "subject": notice.subject,
        "message": notice.message,
        "nextStep": notice.next_step,
        "count": notice.count,
        "openedAt": notice.opened_at,
        "lastSeenAt": notice.last_seen_at,
        "resolvedAt": notice.resolved_at,
    }
    return canonicalize(msgspec.json.encode(shown))


def _succeeded(answer: Answered) -> bool:
    return answer.outcome is Outcome.SUCCESS


def _host(url: str) -> str:
    """Return what may be shown of a URL: its path may hold a token."""
    return parse_receiver_url(url).host


def _in_words(answer: Answered) -> str:
    """Return it on one line."""
    what = f"{answer.outcome} {answer.status}" if answer.status else str(answer.outcome)
    return f"{what}, {' '.join(answer.error.split())}" if answer.error else what
