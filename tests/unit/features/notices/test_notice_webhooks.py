"""Notices on their way to the URLs of ``notices.webhooks``."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.database.open import ensure
from hookline.database.sqlite import OperationalError
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.log import Notice, NoticeLog
from hookline.features.notices.webhooks import InvalidNoticeWebhooks, NoticeWebhooks, checked
from hookline.settings import Deliver, Networks, Notices, Seconds, Settings, Urls
from tests.service.deliver.certificates import Authority
from tests.service.receiver import Receiver, Reply
from tests.service.waiting import wait_until
from tests.unit.conftest import LocationOf

FINDING = Finding("destination_breaker_open", "crm", "timed out")
LOOPBACK = Networks(("127.0.0.0/8",))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where notices go."""
    with Receiver() as running:
        yield running


@pytest.fixture
def log(location_of: LocationOf) -> Iterator[NoticeLog]:
    """An empty list of notices."""
    ensure(location_of("control"), "control")
    made = NoticeLog(location_of("control"))
    yield made
    made.close()


class Sending:
    """A sender whose clock is set by hand and whose retries come after 10 s and 20 s."""

    def __init__(
        self,
        log: NoticeLog,
        *urls: str,
        secret: str | None = None,
        allow: Networks = LOOPBACK,
        ca_file: str | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.log = log
        self.urls = urls
        self.now_ms = 1_760_000_000_000
        self.own_metrics = OwnMetrics()
        settings = Settings(
            deliver=Deliver(allow_networks=allow, timeout=Seconds(timeout_seconds), ca_file=ca_file),
            notices=Notices(webhooks=Urls(urls), secret=secret),
        )
        self._webhooks = NoticeWebhooks(
            settings, log, self.own_metrics, retry_seconds=(10, 20), clock=lambda: self.now_ms / 1000
        )

    def open(self) -> None:
        """Something is the matter."""
        self.log.settle([(FINDING, 0)], [], [], self.now_ms, self.urls)

    def send(self, after_seconds: float = 0) -> Notice:
        """Send what is due then, and return the newest notice."""
        self.now_ms += int(after_seconds * 1000)
        asyncio.run(self._webhooks.send_due())
        return self.log.newest(1)[0]


def test_a_notice_is_sent_signed(log: NoticeLog, receiver: Receiver) -> None:
    """One POST with what the notice says, and a signature over exactly the bytes sent."""
    sending = Sending(log, receiver.url("/ops?x=1"), secret="s3cret")
    sending.open()
    notice = sending.send()
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/ops?x=1")
    assert request.headers["x-signature"] == hmac.new(b"s3cret", request.body, hashlib.sha1).hexdigest()
    assert (request.headers["user-agent"], request.headers["content-type"]) == ("Hookline/1.0", "application/json")
    body = request.json
    assert (body["version"], body["type"], body["kind"]) == (1, "notice", "destination_breaker_open")
    assert (body["subject"], body["message"], body["resolvedAt"]) == ("crm", notice.message, None)
    assert (body["nextStep"], body["openedAt"]) == (notice.next_step, notice.opened_at)
    assert (notice.webhooks_waiting, notice.webhook_error) == (0, None)


def test_resolving_is_sent_too(log: NoticeLog, receiver: Receiver) -> None:
    """The second POST says when it was over, and has an id of its own to tell repeats by."""
    sending = Sending(log, receiver.url())
    sending.open()
    sending.send()
    log.settle([], [], [1], sending.now_ms, sending.urls)
    sending.send()
    assert [request.json["resolvedAt"] is None for request in receiver.requests] == [True, False]
    assert [request.message_id for request in receiver.requests] == ["notice-1-opened", "notice-1-resolved"]
    assert "x-signature" not in receiver.requests[0].headers


def test_what_cannot_be_written_is_not_sent_again(
    log: NoticeLog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noted as soon as the disk lets that be written; that it is over is sent all the same."""

    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    sending = Sending(log, receiver.url())
    sending.open()
    with monkeypatch.context() as patch:
        patch.setattr(log, "sent", full)
        for _ in range(3):
            with pytest.raises(OperationalError):
                sending.send(5)
    assert (sending.send(5).webhooks_waiting, len(receiver.requests)) == (0, 1)
    log.settle([], [], [1], sending.now_ms, sending.urls)
    sending.send(5)
    assert [request.message_id for request in receiver.requests] == ["notice-1-opened", "notice-1-resolved"]


def test_a_failure_is_tried_again_at_that_url_alone(log: NoticeLog, receiver: Receiver) -> None:
    """After the pause, not before; what succeeded is not sent again; then nothing is left to say."""
    receiver.respond = lambda request: Reply(503 if request.path == "/sick" else 200)
    sending = Sending(log, receiver.url("/well"), receiver.url("/sick"))
    sending.open()
    failed = sending.send()
    assert (failed.webhooks_waiting, failed.webhook_error) == (1, "127.0.0.1: server_error 503")
    assert sending.send(9.9) == failed
    receiver.reply_with(200)
    done = sending.send(0.1)
    assert (done.webhooks_waiting, done.webhook_error) == (0, None)
    assert [request.path for request in receiver.requests].count("/well") == 1
    assert sending.own_metrics.notice_webhooks == {"success": 2, "server_error": 1}


def test_why_a_url_failed_for_good_stays_when_another_succeeds(log: NoticeLog, receiver: Receiver) -> None:
    """It does not get the notice, whatever comes of the URLs that are tried again."""
    receiver.respond = lambda request: Reply(404 if request.path == "/gone" else 503)
    sending = Sending(log, receiver.url("/gone"), receiver.url("/sick"))
    sending.open()
    gone, sick = "127.0.0.1: refused 404", "127.0.0.1: server_error 503"
    assert [sending.send(pause).webhook_error for pause in (0, 10)] == [f"{gone}; {sick}"] * 2
    receiver.reply_with(200)
    done = sending.send(20)
    assert (done.webhooks_waiting, done.webhook_error) == (0, gone)


def test_it_is_given_up_with_the_reason(log: NoticeLog, receiver: Receiver) -> None:
    """After the last try nothing is due any more, and the notice says why."""
    receiver.reply_with(200, delay_seconds=60)
    sending = Sending(log, receiver.url(), timeout_seconds=0.5)
    sending.open()
    for pause in (0, 10, 20):
        notice = sending.send(pause)
    assert (notice.webhooks_waiting, notice.webhook_error) == (0, "127.0.0.1: timed_out, no answer within 0.5 s")
    sending.send(3600)
    wait_until(lambda: len(receiver.requests) >= 3, what="three requests")
    assert len(receiver.requests) == 3


def test_a_refusal_is_final(log: NoticeLog, receiver: Receiver) -> None:
    """A status that no retry would change is not tried again."""
    receiver.reply_with(404)
    sending = Sending(log, receiver.url())
    sending.open()
    assert sending.send().webhook_error == "127.0.0.1: refused 404"
    sending.send(3600)
    assert len(receiver.requests) == 1


def test_the_guard_holds_for_notices(log: NoticeLog, receiver: Receiver) -> None:
    """An address that is not public gets nothing unless the settings open it."""
    sending = Sending(log, receiver.url(), allow=Networks(()))
    sending.open()
    assert "blocked_address" in str(sending.send().webhook_error)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(200, headers={"X": "x" * 70_000}), "bad_response"),
        (Reply(302, headers={"Location": "http://127.0.0.1/"}), "refused 302"),
    ],
)
def test_odd_answers_are_failures(log: NoticeLog, receiver: Receiver, reply: Reply, error: str) -> None:
    """A head beyond 64 KB is not read on, a redirect is not followed."""
    receiver.respond = lambda request: reply
    sending = Sending(log, receiver.url())
    sending.open()
    assert error in str(sending.send().webhook_error)


@pytest.mark.parametrize("self_signed", [True, False])
def test_certificates_are_verified(log: NoticeLog, tmp_path: Path, self_signed: bool) -> None:
    """A self-signed one is refused before anything is sent; one of ``deliver.ca_file`` is trusted."""
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server(self_signed=self_signed)) as receiver:
        sending = Sending(log, receiver.url(), ca_file=str(authority.file))
        sending.open()
        notice = sending.send()
        assert ("tls_refused" in str(notice.webhook_error), len(receiver.requests)) == (self_signed, 1 - self_signed)


def test_nobody_listening_and_no_such_name(log: NoticeLog) -> None:
    """Both are said by name, and are tried again."""
    sending = Sending(log, "http://127.0.0.1:8/", "http://nobody.invalid/")
    sending.open()
    notice = sending.send()
    assert "connection_failed" in str(notice.webhook_error)
    assert "name_not_resolved" in str(notice.webhook_error)
    assert notice.webhooks_waiting == 2


def test_a_secret_that_is_missing_sends_nothing(log: NoticeLog, receiver: Receiver) -> None:
    """An unsigned notice would be taken for a forged one; the variable is named."""
    sending = Sending(log, receiver.url(), secret="env:HOOKLINE_SECRET_NOT_THERE")
    sending.open()
    assert "HOOKLINE_SECRET_NOT_THERE" in str(sending.send().webhook_error)
    assert receiver.requests == []


def test_what_was_not_sent_is_sent_after_a_restart(log: NoticeLog, receiver: Receiver) -> None:
    """Another process finds what is due; a URL that was taken out of the settings is told no more."""
    Sending(log, receiver.url("/old"), receiver.url("/kept")).open()
    Sending(log, receiver.url("/kept"), receiver.url("/new")).send()
    assert [request.path for request in receiver.requests] == ["/kept"]


@pytest.mark.parametrize(
    ("notices", "sentence"),
    [
        ({"webhooks": ("ftp://x",)}, "notices.webhooks.*http"),
        ({"secret": "env:PATH"}, "notices.secret.*HOOKLINE_SECRET_"),
        ({"secret": "file:../x"}, "notices.secret.*plain name"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(notices: dict[str, Any], sentence: str) -> None:
    """The start fails with the setting's name instead of every notice later."""
    with pytest.raises(InvalidNoticeWebhooks, match=sentence):
        checked(Settings(notices=Notices(**notices)))


def test_a_change_wakes_the_sender(log: NoticeLog, receiver: Receiver) -> None:
    """The loop sends what was opened while it slept, as soon as it is told."""
    sending = Sending(log, receiver.url())

    async def run(wait: Callable[[], bool]) -> None:
        task = asyncio.create_task(sending._webhooks.run_forever())
        await asyncio.sleep(0)
        await asyncio.to_thread(sending.open)
        sending._webhooks.wake()
        async with asyncio.timeout(30):
            while not wait():  # noqa: ASYNC110 - the receiver is in another thread
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(run(lambda: bool(receiver.requests)))
    assert len(receiver.requests) == 1
