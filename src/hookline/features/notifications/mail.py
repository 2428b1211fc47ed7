"""E-mail by SMTP: the server of ``smtp.url``, one message for all addresses of a channel, and what its answer means.

The standard library's client works in a thread of its own, with a time limit for each answer and one for the whole.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from ipaddress import ip_address
from typing import BinaryIO, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from hookline.features.notifications.wording import Content, html_text, plain, plain_text

ANSWER_SECONDS = 10.0
"""For the connection, and for each answer of the server."""
WHOLE_SECONDS = 30.0
REPLIES_BYTES_MAX = 256 * 1024
"""Of a connection, before TLS and after it: the library gathers lines for as long as the reply has another."""
AT_ONCE_MAX = 4
ERROR_CHARACTERS_MAX = 300

StartTls = Literal["auto", "required", "never"]


class MailFailed(Exception):
    """The message was not sent; ``final`` says that trying again would not help."""

    code = "mail_failed"

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(plain(reason)[:ERROR_CHARACTERS_MAX])
        self.final = final


class MailServer(NamedTuple):
    """Hold what ``smtp.url`` says."""

    host: str
    port: int
    over_tls: bool
    starttls: StartTls
    user: str | None
    password: str | None


def parse_mail_server(url: str) -> MailServer:
    """Read ``smtp://user:password@host:587?starttls=required`` or ``smtps://…``; raise ValueError that shows nothing of
    the password."""
    try:
        parts = urlsplit(url)
        port, query = parts.port, parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError("write smtp://user:password@mail.example.com:587, percent-encoded where necessary") from None
    mode = query.pop("starttls", ["auto"])[-1]
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/") or query:
        raise ValueError("write smtp://user:password@mail.example.com:587, or smtps:// for TLS from the start")
    if mode not in ("auto", "required", "never"):
        raise ValueError("write starttls=auto, required or never")
    over_tls = parts.scheme == "smtps"
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    starttls: StartTls = "required" if mode == "required" else "never" if mode == "never" else "auto"
    return MailServer(
        parts.hostname, port or (465 if over_tls else 587 if user else 25), over_tls, starttls, user, password
    )


class Mailer:
    """Sends messages, a few at a time, each in a thread that nobody has to wait for when the process ends."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], whole_seconds: float = WHOLE_SECONDS) -> None:
        self._tls = tls
        self._whole_seconds = whole_seconds
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def send(self, server: MailServer, mail: EmailMessage) -> str | None:
        """Send one message; return what some addresses were refused for, None when all were taken. Raise MailFailed."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[str | MailFailed | None] = loop.create_future()
            begun: list[smtplib.SMTP] = []

            def settle(result: str | MailFailed | None) -> None:
                if not ended.done():
                    ended.set_result(result)

            def work() -> None:
                result = self._send(server, mail, begun)
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(settle, result)

            threading.Thread(target=work, name="mail", daemon=True).start()
            try:
                result = await asyncio.wait_for(ended, self._whole_seconds)
            except TimeoutError:
                raise MailFailed(f"{server.host}: no end within {self._whole_seconds:g} s") from None
            finally:
                for client in begun:
                    _hang_up(client)
        if isinstance(result, MailFailed):
            raise result
        return result

    def _send(self, server: MailServer, mail: EmailMessage, begun: list[smtplib.SMTP]) -> str | MailFailed | None:
        try:
            return self._talk(server, mail, begun)
        except MailFailed as failed:
            return failed
        except smtplib.SMTPAuthenticationError as error:
            return MailFailed(f"{server.host} refused user and password: {_answer(error)}", final=True)
        except smtplib.SMTPRecipientsRefused as error:
            final = all(code >= 500 for code, _ in error.recipients.values())
            return MailFailed(f"{server.host} refused every address: {_refused(error.recipients)}", final)
        except smtplib.SMTPResponseException as error:
            return MailFailed(f"{server.host} answered {_answer(error)}", final=error.smtp_code >= 500)
        except ssl.SSLError as error:
            return MailFailed(f"{server.host}: TLS failed: {error.reason or error}")
        except (smtplib.SMTPException, OSError) as error:
            return MailFailed(f"{server.host}: {error or type(error).__name__}")
        except ValueError as error:  # a host that can be none, and whatever else the library cannot write
            return MailFailed(f"{server.host}: {error}", final=True)

    def _talk(self, server: MailServer, mail: EmailMessage, begun: list[smtplib.SMTP]) -> str | None:
        client: smtplib.SMTP = (
            _TlsClient(local_hostname=_own_name(), timeout=ANSWER_SECONDS, context=self._tls())
            if server.over_tls
            else _Client(local_hostname=_own_name(), timeout=ANSWER_SECONDS)
        )
        begun.append(client)
        client._host = server.host  # type: ignore[attr-defined]  # the name to verify, which only its constructor sets
        try:
            code, greeting = client.connect(server.host, server.port)
            if code != 220:
                raise smtplib.SMTPConnectError(code, greeting)
            is_private = server.over_tls or self._start_tls(client, server)
            if server.user is not None:
                if not is_private and server.starttls != "never" and not _is_loopback(server.host):
                    raise MailFailed(f"{server.host} offers no TLS, so user and password are not sent", final=True)
                _log_in(client, server.host, server.user, server.password or "")
            refused = client.send_message(mail)
            with suppress(smtplib.SMTPException, OSError):  # it has the message already
                client.quit()
            return _refused(refused) if refused else None
        finally:
            client.close()

    def _start_tls(self, client: smtplib.SMTP, server: MailServer) -> bool:
        client.ehlo_or_helo_if_needed()
        if server.starttls == "never":
            return False
        if not client.has_extn("starttls"):
            if server.starttls == "required":
                raise MailFailed(f"{server.host} offers no TLS, which starttls=required asks for", final=True)
            return False
        client.starttls(context=self._tls())
        client.ehlo()
        return True


class _Client(smtplib.SMTP):
    """The library's client, with a bound on what the server says."""

    def getreply(self) -> tuple[int, bytes]:
        """Return the next reply as the library does."""
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb"))
        return super().getreply()


class _TlsClient(_Client, smtplib.SMTP_SSL):
    """The same with TLS from the start."""


class _Replies:
    """The lines of a server; raises OSError once there are too many."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left_bytes = REPLIES_BYTES_MAX

    def readline(self, size: int) -> bytes:
        """Return the next line, or so many bytes of it."""
        line = self._file.readline(size)
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise OSError(f"it answers more than {REPLIES_BYTES_MAX // 1024} KB; set smtp.url to a mail server")
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def mail_of(content: Content, sender: str, to: tuple[str, ...], service: str, message_id: int | str) -> EmailMessage:
    """Return the message; those about one outage belong to one thread."""
    mail = EmailMessage(policy=SMTP)
    domain = sender.rpartition("@")[2]
    first = f"<hookline-{content.token}@{domain}>"
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = f"[{service}] {content.title}"
    mail["Date"] = format_datetime(datetime.fromisoformat(content.at).astimezone(UTC))
    if content.what == "opened":
        mail["Message-ID"] = first
    else:
        mail["Message-ID"] = f"<hookline-{content.token}-{message_id}@{domain}>"
        if content.what in ("recovered", "reminder"):
            mail["In-Reply-To"] = first
            mail["References"] = first
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(plain_text(content))
    mail.add_alternative(html_text(content), subtype="html")
    return mail


def _own_name() -> str:
    """Return how we greet a server, without the look-up of names that the library would make, which may hang."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"


def _log_in(client: smtplib.SMTP, host: str, user: str, password: str) -> None:
    """Log in; what is not ASCII goes as UTF-8 (RFC 4616), which the library's own login cannot write."""
    if user.isascii() and password.isascii():
        client.login(user, password)
        return
    client.ehlo_or_helo_if_needed()
    if "PLAIN" not in client.esmtp_features.get("auth", "").upper().split():
        reason = "offers no AUTH PLAIN, which a user and password with letters beyond ASCII need"
        raise MailFailed(f"{host} {reason}", final=True)
    given = b64encode(f"\0{user}\0{password}".encode()).decode()
    code, answer = client.docmd("AUTH", f"PLAIN {given}")
    if code != 235:
        raise smtplib.SMTPAuthenticationError(code, answer)


def _hang_up(client: smtplib.SMTP) -> None:
    if client.sock is not None:
        with suppress(OSError):
            client.sock.shutdown(socket.SHUT_RDWR)


def _answer(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return f"{error.smtp_code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"


def _refused(recipients: dict[str, tuple[int, bytes]]) -> str:
    return "; ".join(f"{each}: {code} {text.decode('utf-8', 'replace')}" for each, (code, text) in recipients.items())


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
