"""``hookline listen``: a receiver on this machine that verifies and prints what Hookline sends.

It adds itself as the destination ``listen-<port>`` through the admin API and takes itself out when it ends.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address, ip_network
from queue import Empty, SimpleQueue
from typing import Any, Literal

from hookline.cli.admin_api import AdminApi, CommandFailed, NoAnswer, NotFound, is_loopback
from hookline.cli.app import USAGE
from hookline.cli.target import Target, printable
from hookline.events.signature import PREFIX, StandardSigner, new_standard_secret, standard_key
from hookline.events.timestamps import iso
from hookline.features.events.cli.tail import clock
from hookline.settings import Settings

HOST = "127.0.0.1"
BODY_BYTES_MAX = 1024 * 1024
IDLE_SECONDS = 75.0


@dataclass(frozen=True)
class Arrival:
    """One request that arrived, and whether its signatures are those our secrets give: in one word, and each."""

    at_ms: int
    path: str
    headers: dict[str, str]
    body: bytes
    signature: Verdict
    signatures: Mapping[str, Verdict] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """The arrival as one JSON object; the body decoded when it is JSON."""
        try:
            body: object = json.loads(self.body)
        except ValueError:
            body = self.body.decode("utf-8", "replace")
        return {
            "at": self.at_ms,
            "path": self.path,
            "signature": self.signature,
            "signatures": dict(self.signatures),
            "messageId": self.headers.get("x-message-id"),
            "headers": self.headers,
            "body": body,
        }


class Receiver:
    """An HTTP server on the loopback address that hands every POST to ``show``."""

    def __init__(self, port: int, verifier: Verifier, status: int, show: Callable[[Arrival], None]) -> None:
        self._verifier = verifier
        self._status = status
        self._show = show
        self._printing = threading.Lock()
        try:
            self._server = _Server((HOST, port), _handler(self))
        except OverflowError:
            raise CommandFailed(f"there is no port {port}: choose one from 0 to 65535", exit_code=USAGE) from None
        except OSError as error:
            raise CommandFailed(
                f"cannot listen on port {port} ({error.strerror}); choose another with --port"
            ) from None
        self.port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        """The address to configure as a webhook."""
        return f"http://{HOST}:{self.port}/"

    def start(self) -> None:
        """Answer requests in the background."""
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def stop(self) -> None:
        """Stop answering; idempotent."""
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Show one request and return the status to answer."""
        now_seconds = time.time()
        verdicts = self._verifier.verdicts(headers, body, now_seconds)
        arrival = Arrival(int(now_seconds * 1000), path, headers, body, overall(verdicts), verdicts)
        with self._printing:
            self._show(arrival)
        return self._status


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that ends early is the sender's affair, not worth a traceback."""


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS

        def setup(self) -> None:
            super().setup()
            # Without this the answer's second segment waits 40 ms for an acknowledgement.
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > BODY_BYTES_MAX:
                self.send_error(413)
                return
            body = self.rfile.read(length)
            status = receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Arrivals are shown by the receiver; nothing else is worth a line."""

    return Handler


def make_secret() -> str:
    """A shared secret nobody can guess."""
    return secrets.token_hex(16)


@contextmanager
def connected(admin: AdminApi, receiver: Receiver, verifier: Verifier, source: str | None) -> Iterator[str]:
    """Be a destination of the source (or of all sources) for the time of the context; yield the destination's id.

    Of several secrets of a kind the first is configured; the others are known for when it rotates.
    """
    identifier = f"listen-{receiver.port}"
    sources = [source] if source else [item["id"] for item in admin.sources()]
    settings: dict[str, Any] = {"webhooks": [{"url": receiver.url}]}
    if verifier.shared:
        settings["sharedSecret"] = verifier.shared[0]
    if verifier.standard:
        settings["standardWebhooks"] = {"secret": verifier.standard[0]}
    _remove(admin, identifier)  # one left behind would bring all that waited for it since
    admin.request(
        "PUT",
        f"/destinations/{identifier}",
        {
            "id": identifier,
            "name": f"hookline listen on port {receiver.port}",
            "kind": "webhook",
            "sources": sources,
            "enabled": True,
            "settings": settings,
        },
    )
    try:
        yield identifier
    finally:
        try:
            _remove(admin, identifier)
        except NoAnswer as lost:
            step = f"when Hookline runs again, remove it: hookline destinations delete {identifier}"
            raise CommandFailed(f"{lost} The destination {identifier} is still there; {step}") from None


def end_on_signals() -> SimpleQueue[None]:
    """Take Ctrl-C and SIGTERM as the wish to end, from now on: what was set up is then taken down again."""
    # A handler runs in the middle of whatever the main thread does: an Event that is being waited for holds its lock
    # then, and setting it would never end. This queue may be put to from anywhere.
    ended: SimpleQueue[None] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.put(None))
    return ended


class NewSources:
    """Connects the destination to sources that are created while it listens to all."""

    def __init__(self, admin: AdminApi, destination: str, say: Callable[[str], None]) -> None:
        self._admin = admin
        self._path = f"/destinations/{destination}"
        self._say = say
        self._known: set[str] = set(admin.get(self._path)["sources"])

    @property
    def has_any(self) -> bool:
        """Return whether a source feeds the destination."""
        return bool(self._known)

    def follow(self) -> None:
        """Look once; a server that does not answer now is asked again the next time."""
        with suppress(CommandFailed):
            found = {str(item["id"]): str(item["name"]) for item in self._admin.sources()}
            fresh = [id for id in found if id not in self._known]
            if not fresh:
                return
            # What the destination has now, not what it began with: somebody may have disconnected a source meanwhile.
            connected = [id for id in self._admin.get(self._path)["sources"] if id in found]
            self._admin.request("PATCH", self._path, {"sources": [*connected, *fresh]})
            self._known |= set(fresh)
            for id in fresh:
                self._say(f"listening to the new source {printable(found[id])} ({id}) too")


def wait_for_end(ended: SimpleQueue[None], meanwhile: Callable[[], None] | None = None) -> None:
    """Block until Ctrl-C or SIGTERM; do ``meanwhile`` every second."""
    while True:
        with suppress(Empty):
            return ended.get(timeout=1.0)  # with a limit: the main thread must wake to run signal handlers
        if meanwhile is not None:
            meanwhile()


def _remove(admin: AdminApi, identifier: str) -> None:
    try:
        admin.request("DELETE", f"/destinations/{identifier}")
    except NotFound:
        pass


def listen_until_stopped(
    server: Target,
    *,
    port: int,
    secrets: Sequence[str],
    standard_webhooks: bool,
    status: int,
    source: str | None,
    as_json: bool,
) -> int:
    """Receive and print until Ctrl-C or SIGTERM."""
    ended = end_on_signals()
    verifier = _verifier(secrets, standard_webhooks)
    if server.api is not None and not is_loopback(server.api):
        raise CommandFailed(
            f"the Hookline at {server.api} cannot reach a receiver on this machine; run listen on its machine, or"
            " hookline tail here",
            exit_code=USAGE,
        )
    admin = server.admin()
    show = printer(as_json, server.utc)

    def show_until_closed(arrival: Arrival) -> None:
        try:
            show(arrival)
        except BrokenPipeError:  # the reader of a pipe (`| head`) has seen enough
            ended.put(None)

    receiver = Receiver(port, verifier, status, show_until_closed)
    receiver.start()
    try:
        with connected(admin, receiver, verifier, source) as destination:
            known = ", ".join([*verifier.shared, *verifier.standard])
            _say(f"listening on {receiver.url} as destination {destination} (secret {known}); Ctrl-C ends it")
            if not loopback_allowed(server.settings()):
                _say(
                    "receivers on this machine are refused by the server's settings: set deliver.allow_networks "
                    "to 127.0.0.0/8 (or start it with --quickstart), or nothing will arrive here"
                )
            new_sources = None if source else NewSources(admin, destination, _say)
            if new_sources is not None and not new_sources.has_any:
                _say("there is no source yet; this listens to the first one from the moment it is created")
            wait_for_end(ended, new_sources.follow if new_sources else None)
    finally:
        receiver.stop()
    return 0


def _verifier(given: Sequence[str], standard_webhooks: bool) -> Verifier:
    secrets = list(given) or [make_secret()]
    try:
        verifier = Verifier(secrets)
        if standard_webhooks and not verifier.standard:
            verifier = Verifier([*secrets, new_standard_secret()])
    except ValueError as error:
        raise CommandFailed(f"--secret: {error}", exit_code=USAGE) from None
    return verifier


def loopback_allowed(settings: Settings) -> bool:
    """Return whether the server may send to the receiver's address."""
    address = ip_address(HOST)
    return any(address in ip_network(network) for network in settings.deliver.allow_networks)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


Verdict = Literal["valid", "invalid", "missing"]

TOLERANCE_SECONDS = 300
"""How far an attempt's time may be from ours, as the specification's own libraries have it."""

SHARED = "X-Signature"
STANDARD = "webhook-signature"


class Verifier:
    """Knows the secrets: those that begin with ``whsec_`` are for Standard Webhooks, the others for X-Signature.

    Raise ValueError for a secret of Standard Webhooks that cannot be one.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self.shared = [secret for secret in secrets if not secret.startswith(PREFIX)]
        self.standard = [secret for secret in secrets if secret.startswith(PREFIX)]
        for secret in self.standard:
            standard_key(secret)

    def verdicts(self, headers: Mapping[str, str], body: bytes, now_seconds: float) -> dict[str, Verdict]:
        """By way of signing, for those we have a secret of; ``headers`` has lower-case names."""
        found: dict[str, Verdict] = {}
        if self.shared:
            found[SHARED] = self._shared_verdict(headers, body)
        if self.standard:
            found[STANDARD] = self._standard_verdict(headers, body, now_seconds)
        return found

    def _shared_verdict(self, headers: Mapping[str, str], body: bytes) -> Verdict:
        # While the secret rotates there are two headers, and a receiver with either secret finds its own.
        given = [headers[name] for name in ("x-signature", "x-signature-next") if name in headers]
        if not given:
            return "missing"
        expected = [hmac.new(secret.encode(), body, hashlib.sha1).hexdigest() for secret in self.shared]
        return "valid" if _any_equal(expected, given) else "invalid"

    def _standard_verdict(self, headers: Mapping[str, str], body: bytes, now_seconds: float) -> Verdict:
        if "webhook-signature" not in headers:
            return "missing"
        id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > len("9999999999"):
            return "invalid"
        if abs(now_seconds - int(timestamp)) > TOLERANCE_SECONDS:
            return "invalid"
        signers = [StandardSigner(secret) for secret in self.standard]
        expected = [signer.sign(id.encode(), int(timestamp), body).decode() for signer in signers]
        return "valid" if _any_equal(expected, headers["webhook-signature"].split(" ")) else "invalid"


def overall(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The worst of them, in one word."""
    return next((each for each in ("invalid", "missing") if each in verdicts.values()), "valid")


def _any_equal(expected: Sequence[str], given: Sequence[str]) -> bool:
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in expected for other in given)


VERDICTS = {"valid": ("✓ signed", "green"), "invalid": ("✗ wrong signature", "red"), "missing": ("✗ unsigned", "red")}


def printer(as_json: bool, utc: bool) -> Callable[[Arrival], None]:
    """The way to show arrivals on this standard output."""
    if as_json:
        return show_json
    return _coloured(utc) if sys.stdout.isatty() else show_text


def show_json(arrival: Arrival) -> None:
    """One JSON object per line."""
    print(json.dumps(arrival.json(), ensure_ascii=False), flush=True)


def show_text(arrival: Arrival) -> None:
    """A head line and the body, indented."""
    body = arrival.json()["body"]
    verdict, message_id = VERDICTS[arrival.signature][0], arrival.headers.get("x-message-id")
    print(f"{iso(arrival.at_ms)}  {_title(body)}  {verdict}  {message_id}")
    print(_pretty(body), flush=True)


def _coloured(utc: bool) -> Callable[[Arrival], None]:
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console()

    def show(arrival: Arrival) -> None:
        body = arrival.json()["body"]
        verdict, colour = VERDICTS[arrival.signature]
        # Text, not markup: what arrives may hold anything, square brackets included.
        console.print(
            Text(f"{clock(datetime.fromtimestamp(arrival.at_ms / 1000), utc)}  ", style="dim"),
            Text(_title(body), style="bold"),
            Text(f"  {verdict}", style=colour),
            Text(f"  {arrival.headers.get('x-message-id')}", style="dim"),
            sep="",
        )
        console.print(Syntax(_pretty(body), "json", theme="ansi_dark", background_color="default", word_wrap=True))

    return show


def _title(body: object) -> str:
    if not isinstance(body, dict):
        return "not JSON"
    words = [str(body.get(name)) for name in ("type", "event", "name", "groupId") if body.get(name)]
    who = body.get("userId") or body.get("User ID") or body.get("anonymousId")
    return printable(" ".join(words) + (f" by {who}" if who else ""))


def _pretty(body: object) -> str:
    return printable(json.dumps(body, indent=2, ensure_ascii=False), keep="\n")
