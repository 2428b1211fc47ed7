"""Messages on their way: to a mail server on a real socket, to Slack, to webhooks; and what their answers mean."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterator
from email.message import Message
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.notifications import Channel
from hookline.features.notifications import mail
from hookline.features.notifications.channels import SMTP_MISSING, Channels, Result
from hookline.features.notifications.mail import MailServer as ParsedServer
from hookline.features.notifications.mail import parse_mail_server
from hookline.features.notifications.wording import Content, OutageNotice, content_of, slack_body
from hookline.settings import Deliver, Networks, Secrets, Settings, Smtp
from tests.service.deliver.certificates import Authority
from tests.service.receiver import Receiver
from tests.unit.features.notifications.mail_server import MailServer

NOW_MS = 1_795_000_000_000
HOSTILE = "crm\r\nBcc: evil@example.com\x00<script>alert(1)</script> & <!channel> \u202e"
NOTICE = OutageNotice(
    "destination_breaker_open",
    "crm",
    "warning",
    "Destination crm keeps failing: server error 503, since 2026-11-18T11:00:00.000Z.",
    "Repair the receiver.",
    1,
    NOW_MS - 600_000,
)
TO = {"email": ["ops@example.com", "second@example.com"]}


def content(
    what: str = "opened", notice: OutageNotice = NOTICE, name: str = "Operators", zone: str = "Europe/Berlin"
) -> Content:
    """A message about one notice."""
    pages = "https://hookline.example"
    return content_of(what, "ops", name, [notice], now_ms=NOW_MS, zone=zone, pages=pages, token="t0k3n")


def sent(channel: dict[str, Any], message: Content | None = None, **given: Any) -> Result:
    """Send by channels with these settings."""
    deliver = Deliver(allow_networks=given.pop("allow", Networks(("127.0.0.0/8",))), ca_file=given.pop("ca_file", None))
    channels = Channels(Settings(deliver=deliver, **given))
    return asyncio.run(channels.send(msgspec.convert(channel, Channel), message or content(), "notification-7"))


def mailed(
    server: MailServer, message: Content | None = None, url: str = "smtp://127.0.0.1:{port}", **given: Any
) -> Result:
    """Send e-mail by this server."""
    return sent(TO, message, smtp=Smtp(url=url.format(port=server.port), from_="hookline@example.com"), **given)


def text_of(message: Message, subtype: str) -> str:
    """Return one part of a mail."""
    (part,) = [each for each in message.walk() if each.get_content_type() == f"text/{subtype}"]
    return part.get_content()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A certificate authority that is trusted by way of deliver.ca_file."""
    return Authority(tmp_path)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where Slack and webhooks would be."""
    with Receiver() as running:
        yield running


def test_a_mail_says_what_since_when_and_what_next() -> None:
    """In plain text and HTML, in the rule's time zone, with a link; to every address at once."""
    with MailServer() as server:
        assert mailed(server) == Result()
    (message,) = server.mails
    assert server.recipients == [["ops@example.com", "second@example.com"]]
    assert message["Subject"] == "[Hookline] Destination crm keeps failing"
    assert (message["From"], message["Auto-Submitted"]) == ("hookline@example.com", "auto-generated")
    plain, html = text_of(message, "plain"), text_of(message, "html")
    for part in (plain, html):
        assert "since Wed 18 Nov 2026, 12:00 CET" in part
        assert "Next: Repair the receiver." in part
        assert "https://hookline.example/destinations/crm/attempts" in part
        assert "2026-11-18T" not in part


def test_recovered_belongs_to_the_thread_of_its_outage() -> None:
    """The first message's id is what later ones refer to; repeats of one message have one id."""
    with MailServer() as server:
        mailed(server)
        mailed(server, content("recovered", NOTICE._replace(gone_ms=NOW_MS)))
        mailed(server, content("recovered", NOTICE._replace(gone_ms=NOW_MS)))
    opened, recovered, again = server.mails
    assert opened["Message-ID"] == recovered["In-Reply-To"] == recovered["References"]
    assert recovered["Message-ID"] == again["Message-ID"] != opened["Message-ID"]
    assert recovered["Subject"] == "[Hookline] Resolved: Destination crm keeps failing"


def test_names_cannot_add_headers_or_markup() -> None:
    """Line ends, control and direction characters go; HTML is escaped; nobody else gets the mail."""
    hostile = NOTICE._replace(subject=HOSTILE, message=f"Destination {HOSTILE} keeps failing")
    with MailServer() as server:
        assert mailed(server, content(notice=hostile, name=HOSTILE)) == Result()
    (message,) = server.mails
    assert message["Bcc"] is None
    assert server.recipients == [["ops@example.com", "second@example.com"]]
    assert "\u202e" not in str(message["Subject"])
    assert "<script>" not in text_of(message, "html")
    assert "&lt;script&gt;" in text_of(message, "html")


@pytest.mark.parametrize("over_tls", [True, False])
def test_user_and_password_go_over_verified_tls(authority: Authority, over_tls: bool) -> None:
    """By STARTTLS, or TLS from the start; percent-encoded in the URL, which may be a reference."""
    (authority.file.parent / "url").write_text("")
    with MailServer(authority.server(), over_tls, login=("us@er", "p:ss w")) as server:
        scheme = "smtps" if over_tls else "smtp"
        (authority.file.parent / "url").write_text(f"{scheme}://us%40er:p%3Ass%20w@127.0.0.1:{server.port}")
        secrets = Secrets(dir=str(authority.file.parent))
        assert mailed(server, url="file:url", ca_file=str(authority.file), secrets=secrets) == Result()
    assert server.secured == [True]


def test_a_password_may_have_letters_of_every_language() -> None:
    """It goes as UTF-8 (RFC 4616); a wrong one is final, and a server that takes no such form is named."""
    url = "smtp://ops:p%C3%A4ss%E2%82%AC@127.0.0.1:{port}"
    with MailServer(login=("ops", "päss€")) as server:
        assert mailed(server, url=url) == Result()
        wrong = mailed(server, url=url.replace("ops", "op"))
        assert (wrong.final, "refused user and password: 535" in str(wrong.error)) == (True, True)
        server.answers = {"EHLO": b"250-mail.test\r\n250 AUTH LOGIN"}
        other = mailed(server, url=url)
        assert (other.final, "AUTH PLAIN" in str(other.error), "päss" in str(other.error)) == (True, True, False)


def test_a_host_that_can_be_none_is_said_at_once() -> None:
    """Not after the time for a whole message, and not five times."""
    result = sent(TO, smtp=Smtp(url="smtp://mail..example.com", from_="hookline@example.com"))
    assert result.final
    assert str(result.error).startswith("mail..example.com: ")


def test_a_certificate_of_nobody_is_refused(authority: Authority) -> None:
    """Neither the message nor the password goes to a server that cannot be verified; it is tried again."""
    with MailServer(authority.server(self_signed=True), login=("u", "p")) as server:
        result = mailed(server, url="smtp://u:p@127.0.0.1:{port}", ca_file=str(authority.file))
    assert "TLS failed" in str(result.error)
    assert (result.final, server.mails) == (False, [])
    assert not any(command.startswith("AUTH") for command in server.commands)


def test_without_tls_no_password_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where TLS was stripped on the way, or is not offered; `required` says so for the message, too."""
    monkeypatch.setattr(mail, "_is_loopback", lambda host: False)
    with MailServer(login=("u", "p")) as server:
        result = mailed(server, url="smtp://u:p@127.0.0.1:{port}")
        assert result == Result("127.0.0.1 offers no TLS, so user and password are not sent", final=True)
        required = mailed(server, url="smtp://127.0.0.1:{port}?starttls=required")
        assert "offers no TLS" in str(required.error)
        assert mailed(server, url="smtp://u:p@127.0.0.1:{port}?starttls=never") == Result()
    assert len(server.mails) == 1


def test_a_wrong_password_is_final_and_named() -> None:
    """Another try would only lock the account; the password is nowhere in the reason."""
    with MailServer(login=("u", "right")) as server:
        result = mailed(server, url="smtp://u:very-wrong@127.0.0.1:{port}")
    assert result.final
    assert "refused user and password: 535" in str(result.error)
    assert "very-wrong" not in str(result.error)


@pytest.mark.parametrize(
    ("answers", "final"),
    [
        ({"DATA": b"451 try again later"}, False),
        ({"MAIL": b"421 too busy"}, False),
        ({"DATA": b"554 no"}, True),
        ({"RCPT": b"450 greylisted"}, False),
        ({"RCPT": b"550 no such user"}, True),
        ({"RCPT": lambda text: b"450 greylisted" if "second" in text else b"550 no such user"}, False),
    ],
)
def test_4xx_is_tried_again_and_5xx_is_final(answers: dict[str, Any], final: bool) -> None:
    """As the server says; then it takes the message."""
    with MailServer() as server:
        server.answers = answers
        result = mailed(server)
        assert result.error is not None
        assert result.final is final
        server.answers = {}
        assert mailed(server) == Result()


def test_one_refused_address_does_not_keep_the_others() -> None:
    """The message is sent, and who did not get it is noted."""
    with MailServer() as server:
        server.answers = {"RCPT": lambda text: b"550 gone" if "second" in text else b""}
        result = mailed(server)
    assert (result.error, len(server.mails)) == (None, 1)
    assert "second@example.com: 550 gone" in str(result.note)


def test_a_server_that_hangs_is_left() -> None:
    """After the time for all of it, whatever it hangs at."""
    with MailServer() as server:
        server.hangs_at = "DATA"
        mailer = mail.Mailer(lambda: pytest.fail("no TLS here"), whole_seconds=0.3)
        where = ParsedServer("127.0.0.1", server.port, False, "never", None, None)
        message = mail.mail_of(content(), "h@example.com", ("a@example.com",), "Hookline", 1)
        with pytest.raises(mail.MailFailed, match="no end within") as failed:
            asyncio.run(mailer.send(where, message))
    assert not failed.value.final


def test_a_server_that_replies_without_end_is_left() -> None:
    """The library would keep every line of a reply."""
    with MailServer() as server:
        server.answers = {"MAIL": b"250-and more\r\n" * 100_000 + b"250 ok"}
        result = mailed(server)
    assert "it answers more than 256 KB; set smtp.url to a mail server" in str(result.error)
    assert not result.final


def test_without_a_mail_server_it_says_what_to_set() -> None:
    """The two settings, by name."""
    assert sent(TO) == Result(SMTP_MISSING, final=True)


@pytest.mark.parametrize(
    "url", ["smtp://", "http://mail", "smtp://h/path", "smtp://h?x=1", "smtp://h?starttls=maybe", "smtp://h:port"]
)
def test_a_wrong_mail_url_says_what_to_write(url: str) -> None:
    """And shows nothing of what was given."""
    with pytest.raises(ValueError, match=r"^write "):
        parse_mail_server(url)


def test_slack_gets_blocks_with_everything_escaped(receiver: Receiver) -> None:
    """Nothing quoted can mention a channel or make a link."""
    hostile = NOTICE._replace(subject=HOSTILE, message=f"Destination {HOSTILE} keeps failing")
    assert sent({"slack": {"url": receiver.url("/services/x")}}, content(notice=hostile, name=HOSTILE)) == Result()
    body = receiver.requests[0].json
    text = receiver.requests[0].body.decode()
    assert body["blocks"][0]["type"] == "header"
    assert "<!channel>" not in body["text"]
    assert all("<!channel>" not in block["text"]["text"] for block in body["blocks"] if block["type"] == "section")
    assert "&lt;!channel&gt;" in text
    assert "x-signature" not in receiver.requests[0].headers


def test_a_webhook_is_signed(receiver: Receiver) -> None:
    """Over exactly the bytes sent, with an id to tell repeats by."""
    assert sent({"webhook": {"url": receiver.url("/alerts"), "secret": "s3cret"}}) == Result()
    (request,) = receiver.requests
    assert request.headers["x-signature"] == hmac.new(b"s3cret", request.body, hashlib.sha1).hexdigest()
    assert request.message_id == "notification-7"
    body = request.json
    assert (body["version"], body["type"], body["what"], body["notification"]) == (1, "notification", "opened", "ops")
    assert body["notices"][0]["subject"] == "crm"
    assert body["notices"][0]["overAt"] is None


@pytest.mark.parametrize("character", ["&", "x", "<"])
def test_slack_gets_no_section_that_it_would_refuse(character: str) -> None:
    """Names of events come from anybody: however long they are once escaped, all notices of the message arrive."""
    long = NOTICE._replace(kind="event_name_new", subject="website", message=f"It sent {character * 2_000}")
    message = content_of(
        "opened", "ops", "Ops", [NOTICE, long], now_ms=NOW_MS, zone="UTC", pages="https://h", token="t"
    )
    texts = [each["text"]["text"] for each in slack_body(message)["blocks"] if each["type"] == "section"]
    assert max(map(len, texts)) <= 3_000
    assert "keeps failing" in texts[0]
    assert unescape(texts[1].partition("\n")[0]).strip("*…").endswith(character)
    assert "https://h/sources/website/schema" in texts[1]


@pytest.mark.parametrize("kind", ["slack", "webhook"])
@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "10.0.0.8", "[::1]", "localhost"])
def test_the_inside_is_not_reached(receiver: Receiver, kind: str, host: str) -> None:
    """Neither Slack's URL nor a webhook's leads to an address that is not public; and it is final."""
    url = receiver.url("/x").replace("127.0.0.1", host)
    result = sent({kind: {"url": url}}, allow=Networks(()))
    assert result.final
    assert "blocked address" in str(result.error)
    assert receiver.requests == []


@pytest.mark.parametrize(("status", "final"), [(404, True), (403, True), (429, False), (500, False)])
def test_what_slack_answers_decides(receiver: Receiver, status: int, final: bool) -> None:
    """A URL that was revoked is given up; a busy Slack is tried again."""
    receiver.reply_with(status)
    result = sent({"slack": {"url": receiver.url("/services/secret-part")}})
    assert (result.final, "secret-part" in str(result.error)) == (final, False)


def test_a_missing_secret_is_tried_again(receiver: Receiver) -> None:
    """The reason names the reference."""
    result = sent({"slack": {"url": "env:HOOKLINE_SECRET_NOT_THERE"}})
    assert "HOOKLINE_SECRET_NOT_THERE" in str(result.error)
    assert not result.final
