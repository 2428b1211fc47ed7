"""Brings a message to its channel: e-mail, Slack or a webhook, once; says what came of it and whether to try again.

Requests go by way of the one sender that all others use, so its guard keeps them off inside addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hookline.connections.notifications import Channel, SlackChannel, WebhookChannel
from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.connections.secrets import SecretMissing, resolve
from hookline.deliver.send.tls import tls_context
from hookline.events.canonical import canonicalize
from hookline.events.signature import Signer
from hookline.features.notifications.wording import Content, plain, slack_body, webhook_body
from hookline.outcomes.outcome import FINAL, Outcome
from hookline.settings import Settings

if TYPE_CHECKING:
    from hookline.deliver.send.pool import Exchanges
    from hookline.features.notifications.mail import Mailer

SMTP_MISSING = "smtp.url and smtp.from are not set, so no e-mail can be sent"
ANSWER_CHARACTERS_MAX = 100


class Result(NamedTuple):
    """Hold what came of one message at one channel: ``error`` is None when it was taken. A ``final`` one is not tried
    again. ``note`` is what was refused beside it."""

    error: str | None = None
    final: bool = False
    note: str | None = None


class Channels:
    """The one place where notifications leave."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mailer: Mailer | None = None
        self._exchanges: Exchanges | None = None

    async def send(self, channel: Channel, content: Content, message_id: str) -> Result:
        """Send a message; never raises for what a receiver, the network or a missing secret does."""
        try:
            if channel.email is not None:
                return await self._send_mail(channel.email, content, message_id)
            if channel.slack is not None:
                return await self._send_to_slack(channel.slack, content)
            assert channel.webhook is not None
            return await self._send_to_webhook(channel.webhook, content, message_id)
        except SecretMissing as error:
            return Result(str(error))
        except OSError as error:  # deliver.ca_file is not there
            return Result(f"nothing was sent: {error}")

    async def _send_mail(self, to: tuple[str, ...], content: Content, message_id: str) -> Result:
        # Here: only who sends e-mail pays for the modules of that.
        from hookline.features.notifications.mail import Mailer, MailFailed, mail_of, parse_mail_server

        url, sender = self._settings.smtp.url, self._settings.smtp.from_
        if url is None or sender is None:
            return Result(SMTP_MISSING, final=True)
        try:
            server = parse_mail_server(resolve(url, self._settings))
        except ValueError as error:
            return Result(f"setting smtp.url: {error}", final=True)
        if self._mailer is None:
            self._mailer = Mailer(lambda: tls_context(self._settings.deliver.ca_file))
        mail = mail_of(content, sender, to, self._settings.service_name, message_id)
        try:
            refused = await self._mailer.send(server, mail)
        except MailFailed as error:
            return Result(str(error), error.final)
        return Result(note=None if refused is None else plain(f"refused for {refused}"))

    async def _send_to_slack(self, slack: SlackChannel, content: Content) -> Result:
        try:
            url = parse_receiver_url(resolve(slack.url, self._settings))
        except ValueError:
            return Result("the value that the Slack URL refers to is not a URL", final=True)
        return await self._post(url, {}, msgspec.json.encode(slack_body(content)))

    async def _send_to_webhook(self, webhook: WebhookChannel, content: Content, message_id: str) -> Result:
        body = canonicalize(msgspec.json.encode(webhook_body(content, message_id)))
        headers = {"X-Message-Id": message_id}
        if webhook.secret is not None:
            headers["X-Signature"] = Signer(resolve(webhook.secret, self._settings)).hex(body).decode()
        return await self._post(parse_receiver_url(webhook.url), headers, body)

    async def _post(self, url: ReceiverUrl, headers: dict[str, str], body: bytes) -> Result:
        # Here: only who has such channels pays for the sender's modules.
        from hookline.deliver.send.pool import Exchanges
        from hookline.deliver.send.proxy import proxy_of
        from hookline.deliver.send.request import request_of
        from hookline.deliver.send.resolver import Guard, Resolver

        if self._exchanges is None:
            deliver = self._settings.deliver
            resolver = Resolver(Guard(deliver.allow_networks))
            self._exchanges = Exchanges(
                resolver, tls_context(deliver.ca_file), deliver.timeout, proxy_of(self._settings)
            )
        headers = {"User-Agent": f"{self._settings.service_name}/1.0", **headers}
        exchange = await self._exchanges.send(url, request_of(url, headers, body))
        if exchange.outcome is Outcome.SUCCESS:
            return Result()
        return Result(f"{url.host}: {_in_words(exchange)}", exchange.outcome in FINAL)


def _in_words(exchange: Any) -> str:
    what = f"{exchange.outcome.replace('_', ' ')} {exchange.status or ''}".strip()
    return plain(f"{what}, {exchange.error}" if exchange.error else what)
