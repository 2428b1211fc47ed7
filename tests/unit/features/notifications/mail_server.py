"""A mail server of a few lines on a real socket: with and without TLS, with refusals, and one that hangs."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from email.policy import SMTP
from types import TracebackType
from typing import Any


class MailServer:
    """A context manager; ``answers`` replaces the answer to a verb, such as ``{"DATA": b"451 later"}``."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, over_tls: bool = False, login: tuple[str, str] | None = None
    ) -> None:
        self.answers: dict[str, bytes | Callable[[str], bytes]] = {}
        self.mails: list[Message] = []
        self.recipients: list[list[str]] = []
        self.commands: list[str] = []
        self.secured: list[bool] = []
        """Whether TLS was on, for each mail."""
        self.hangs_at = ""
        self._tls, self._over_tls, self._login = tls, over_tls, login
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> MailServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._socket.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Any) -> None:
        secured = False
        try:
            if self._over_tls and self._tls is not None:
                connection, secured = self._tls.wrap_socket(connection, server_side=True), True
            file = connection.makefile("rb")
            connection.sendall(b"220 mail.test ready\r\n")
            to: list[str] = []
            while line := file.readline():
                text = line.decode().strip()
                verb = text.split(" ")[0].upper()
                self.commands.append(text)
                if verb == self.hangs_at:
                    self._stopped.wait(60)
                    return
                answer = self.answers.get(verb)
                if callable(answer):
                    answer = answer(text)
                if answer:
                    connection.sendall(answer + b"\r\n")
                elif verb == "EHLO":
                    more = [b"250-STARTTLS"] if self._tls is not None and not secured else []
                    more += [b"250-AUTH PLAIN"] if self._login else []
                    connection.sendall(b"\r\n".join([b"250-mail.test", *more, b"250 8BITMIME"]) + b"\r\n")
                elif verb == "STARTTLS" and self._tls is not None:
                    connection.sendall(b"220 go ahead\r\n")
                    connection, secured = self._tls.wrap_socket(connection, server_side=True), True
                    file = connection.makefile("rb")
                elif verb == "AUTH":
                    given = base64.b64decode(text.split(" ")[2]).decode().split("\0")[1:]
                    right = self._login is not None and given == list(self._login)
                    connection.sendall(b"235 welcome\r\n" if right else b"535 wrong user or password\r\n")
                elif verb == "RCPT":
                    to.append(text.partition("<")[2].rstrip(">"))
                    connection.sendall(b"250 ok\r\n")
                elif verb == "DATA":
                    connection.sendall(b"354 go on\r\n")
                    lines = []
                    while (part := file.readline()) not in (b".\r\n", b""):
                        lines.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                    self.mails.append(message_from_bytes(b"".join(lines), policy=SMTP))
                    self.recipients.append(to)
                    self.secured.append(secured)
                    to = []
                    connection.sendall(b"250 taken\r\n")
                elif verb == "QUIT":
                    connection.sendall(b"221 bye\r\n")
                    return
                else:
                    connection.sendall(b"250 ok\r\n")
        except OSError:
            return
        finally:
            connection.close()
