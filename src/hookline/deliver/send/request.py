"""Write the requests to a destination's URLs, signed as it asks: what does not change from event to event is written
once.

The order of the two secrets is in docs/decisions/0006: until the overlap ends, what receivers knew before stays as it
was, and the new secret's signature comes in addition.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

from hookline.connections.kinds import resolved_auth, sent_forms, shown_url
from hookline.connections.model import Destination, SecretSetting
from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.connections.rotation import running_rotation, secret_of, until_ms
from hookline.database.steady_clock import Clock
from hookline.deliver.event import Event
from hookline.deliver.send.port import Answer
from hookline.events.body import message_id_header
from hookline.events.signature import Signer, StandardSigner, webhook_id
from hookline.kinds.answers import PLAIN_JUDGE, Verdict
from hookline.kinds.catalog import request_headers
from hookline.kinds.headers import HEADERS_BYTES_MAX
from hookline.kinds.requests import CompiledRequest, Plan
from hookline.route.filters import Filters
from hookline.secret_references import MASK, mask

_UNSENDABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")

_ESCAPED = re.compile(r"(\\u)([0-9a-f]{4})")

SignerT = TypeVar("SignerT", Signer, StandardSigner)


class Signers(NamedTuple, Generic[SignerT]):
    """Say who signs for one setting: the secret's signer, and until ``until_ms``, by the service's own clock, also that
    of the one it replaces.
    """

    current: SignerT
    previous: SignerT | None
    until_ms: int


class Signing:
    """The signature headers of one destination's requests; each attempt has the time of its own."""

    __slots__ = ("_clock", "_shared", "_standard")

    def __init__(self, shared: Signers[Signer] | None, standard: Signers[StandardSigner] | None, clock: Clock) -> None:
        self._shared = shared
        self._standard = standard
        self._clock = clock

    @property
    def canonical(self) -> bool:
        """Return whether the body must be as JavaScript writes it: X-Signature is checked that way too,
        Standard Webhooks over the raw bytes only, so that there numbers stay as the caller wrote them."""
        return self._shared is not None

    def lines(self, message_id_header: bytes, body: bytes) -> bytes:
        """Return the header lines of an attempt that is made now, each with its end."""
        steady_ms = self._clock.steady_ms()
        lines = b""
        if self._shared is not None:
            lines += _shared_lines(self._shared, body, steady_ms)
        if self._standard is not None:
            seconds = self._clock.now_ms() // 1000
            lines += _standard_lines(self._standard, message_id_header, body, steady_ms, seconds)
        return lines


def signing_of(destination: Destination, clock: Clock) -> Signing | None:
    """Return how a destination (its secrets resolved) signs, None if one ``X-Signature`` or nothing is all.

    Raise ValueError for a Standard Webhooks secret that cannot be one.
    """
    now_ms = clock.steady_ms()
    settings = destination.settings
    if settings.standard_webhooks is None and running_rotation(destination, "sharedSecret", now_ms) is None:
        return None
    shared = _signers(destination, "sharedSecret", Signer, now_ms)
    return Signing(shared, _signers(destination, "standardWebhooks", StandardSigner, now_ms), clock)


def _signers(
    destination: Destination, setting: SecretSetting, kind: type[SignerT], now_ms: int
) -> Signers[SignerT] | None:
    secret = secret_of(destination.settings, setting)
    if not secret:
        return None
    rotation = running_rotation(destination, setting, now_ms)
    if rotation is None or not rotation.previous:
        return Signers(kind(secret), None, 0)
    return Signers(kind(secret), kind(rotation.previous), until_ms(rotation))


def _shared_lines(signers: Signers[Signer], body: bytes, now_ms: int) -> bytes:
    current = signers.current.hex(body)
    if signers.previous is None or now_ms >= signers.until_ms:
        return b"X-Signature: %b\r\n" % current
    return b"X-Signature: %b\r\nX-Signature-Next: %b\r\n" % (signers.previous.hex(body), current)


def _standard_lines(
    signers: Signers[StandardSigner], message_id_header: bytes, body: bytes, now_ms: int, timestamp_seconds: int
) -> bytes:
    id = webhook_id(message_id_header)
    signature = signers.current.sign(id, timestamp_seconds, body)
    if signers.previous is not None and now_ms < signers.until_ms:
        signature += b" " + signers.previous.sign(id, timestamp_seconds, body)
    return b"webhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n" % (id, timestamp_seconds, signature)


LENGTHS_KEPT = 4_096
"""Bodies up to this length have the line with it at hand."""

HIDDEN_FROM_CHARS = 8
"""A shorter value of a header is no credential worth the name, and may well be a word of an answer."""

BEGINNINGS_MAX = 32
"""Places of a text that begin like a credential and go on otherwise. The next one counts as the credential: to look at
thousands of them would take as long as the text is, for each."""

_SIGNATURE = b"\r\nX-Signature: "


class _EndOfHead(dict[int, bytes]):
    """The head's end by the body's length; formatting a number takes longer than looking it up."""

    def __missing__(self, length: int) -> bytes:
        line = b"\r\nContent-Length: %d\r\n\r\n" % length
        if length <= LENGTHS_KEPT:
            self[length] = line
        return line


_end_of_head = _EndOfHead()
_join = b"".join


class Template:
    """Writes the requests for one URL, signed if its destination has a shared secret."""

    __slots__ = ("_credentials", "_fetched", "_filters", "_prefix", "_signer", "_written_last", "receiver", "url")

    def __init__(self, url: str, prefix: bytes, signer: Signer | None, filters: Filters | None = None) -> None:
        self.url = url
        self.receiver = parse_receiver_url(url)
        self._prefix = prefix
        self._signer = signer
        self._filters = filters if filters is not None and filters.edits else None
        self._credentials: tuple[str, ...] = ()
        self._fetched: Callable[[], tuple[str, ...]] = tuple
        self._written_last: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        """The credentials that were fetched when last asked, and all that they may be written as."""

    def hide(self, headers: Mapping[str, str]) -> None:
        """Say which static headers the requests carry, so that ``hidden`` knows their values."""
        words = {word for value in headers.values() for word in (value, value.rpartition(" ")[2])}
        self._credentials = _written_as(words)

    def hide_fetched(self, credentials: Callable[[], tuple[str, ...]]) -> None:
        """Say what knows the credentials that are fetched for the requests and change with time."""
        self._fetched = credentials

    def hidden(self, text: str) -> str:
        """Return what a receiver answered with the credentials masked that it sent back, as some do on errors."""
        fetched = self._fetched()
        if fetched != self._written_last[0]:  # to find out how they are written takes long, for each of a batch
            self._written_last = fetched, _written_as(fetched)
        for credential in (*self._written_last[1], *self._credentials):
            if len(credential) >= HIDDEN_FROM_CHARS and credential[:HIDDEN_FROM_CHARS] in text:
                text = _masked(credential, text)
        return text

    def request(self, event: Event) -> bytes:
        """Return the whole request: head and body in one piece, so that it leaves in one write."""
        if self._signer is not None:
            return self.requests((event,))[0]
        message_id, body = event.plain()
        if self._filters is not None:
            body = self._filters.body(event.record, body, canonical=False)
        return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (self._prefix, message_id, len(body), body)

    def requests(self, events: Sequence[Event]) -> list[bytes]:
        """Return the requests of several events; what of them can be made together is."""
        signer, prefix, filters = self._signer, self._prefix, self._filters
        if signer is None:
            return [self.request(event) for event in events]
        message_ids, bodies = Event.all_canonical(events)
        if filters is not None:
            edited = zip(events, bodies, strict=True)
            bodies = [filters.body(event.record, body, canonical=True) for event, body in edited]
        ends = map(_end_of_head.__getitem__, map(len, bodies))
        signed = signer.hex_of_all(bodies)
        parts = zip(repeat(prefix), message_ids, repeat(_SIGNATURE), signed, ends, bodies, strict=False)
        return list(map(_join, parts))


def _masked(credential: str, text: str) -> str:
    """Return the text with the credential masked, also where its end has only the beginning: of a long answer the rest
    is cut off."""
    beginning = credential[:HIDDEN_FROM_CHARS]
    shown, done, others = "", 0, 0
    at = text.find(beginning)
    while at >= 0:
        if text.startswith(credential, at):
            shown += text[done:at] + mask(credential)
            after = done = at + len(credential)
        elif others == BEGINNINGS_MAX or credential.startswith(text[at:]):
            return shown + text[done:at] + MASK
        else:
            others += 1
            after = at + 1
        at = text.find(beginning, after)
    return shown + text[done:]


def _written_as(words: Iterable[str]) -> tuple[str, ...]:
    """Return words and what they may become in JSON, the longest first: some escape ``/``, or all but ASCII."""
    found: set[str] = set()
    for word in words:
        escaped = json.dumps(word)[1:-1]
        capitals = _ESCAPED.sub(lambda match: match[1] + match[2].upper(), escaped)
        forms = (word, json.dumps(word, ensure_ascii=False)[1:-1], escaped, capitals)
        found.update(forms, (form.replace("/", "\\/") for form in forms))
    return tuple(sorted(found, key=len, reverse=True))


class SignedTemplate(Template):
    """Signs with ``webhook-signature``, or two secrets, too; a class of its own, so that the others pay nothing."""

    __slots__ = ("_signing",)

    def __init__(self, url: str, prefix: bytes, signing: Signing, filters: Filters | None = None) -> None:
        super().__init__(url, prefix, None, filters)
        self._signing = signing

    def request(self, event: Event) -> bytes:
        """Return the whole request, with the time and the signatures of this attempt."""
        canonical = self._signing.canonical
        message_id, body = event.canonical() if canonical else event.plain()
        if self._filters is not None:
            body = self._filters.body(event.record, body, canonical)
        lines = self._signing.lines(message_id, body)
        return b"%b%b\r\n%bContent-Length: %d\r\n\r\n%b" % (self._prefix, message_id, lines, len(body), body)


class MappedTemplate(Template):
    """Writes the requests that a mapping makes; what an event becomes is rendered by whoever has it."""

    __slots__ = ("_after", "_before", "_request")

    def __init__(self, request: CompiledRequest, url: str, lines: Sequence[tuple[str, str]]) -> None:
        """``url`` is what people see of it; ``lines`` are headers of every request."""
        super().__init__(request.sample_url, b"", None)
        self.url = url
        self._request = request
        own = [(name, value) for name, value in lines if not request.sets_header(name)]
        if request.has_body and not request.sets_header("content-type"):
            own.append(("Content-Type", request.content_type))
        headers = "".join(f"{name}: {value}\r\n" for name, value in [("Host", self.receiver.host_header), *own])
        self._before = f"{request.request.method} ".encode()
        self._after = f" HTTP/1.1\r\n{headers}".encode("latin-1")

    def write(self, target: str, headers: bytes, body: bytes, message_id: str | None) -> bytes:
        """Return a whole request; ``message_id`` is that of its only event."""
        own = b"" if message_id is None else b"X-Message-Id: %b\r\n" % message_id_header(message_id)
        length = b"Content-Length: %d\r\n" % len(body) if self._request.has_body else b""
        return b"".join((self._before, target.encode("ascii"), self._after, headers, own, length, b"\r\n", body))

    def judged(self, answer: Answer, count: int) -> Sequence[Verdict]:
        """Return what became of each of the events that a request was for."""
        judge = self._request.judge or PLAIN_JUDGE
        if count == 1 and self._request.batch is None:
            return (judge.whole(answer.status, answer.head, answer.body),)
        return judge.each(answer.status, answer.head, answer.body, count)


def mapped_templates(
    destination: Destination, plan: Plan, secrets: Sequence[str], service_name: str, replay: str | None = None
) -> list[MappedTemplate]:
    """Return what writes each of a plan's requests for a destination whose ``secrets`` are resolved.

    Raise ValueError for what was never checked.
    """
    lines = [("User-Agent", f"{service_name}/1.0"), *([("X-Hookline-Replay", replay)] if replay else [])]
    authorization = _authorization_of(destination)
    if authorization is not None:
        lines.append(("Authorization", authorization))
    _check_static_lines(lines)
    made: list[MappedTemplate] = []
    words = [*(form for secret in secrets for form in sent_forms(secret)), *filter(None, [authorization])]
    hidden = {str(number): word for number, word in enumerate(words)}
    for request in plan.requests:
        made.append(MappedTemplate(request, shown_url(request, secrets), lines))
        made[-1].hide(hidden)
    return made


def _authorization_of(destination: Destination) -> str | None:
    """Return the value of ``Authorization`` that every request carries, None where there is none, or none yet."""
    auth = resolved_auth(destination)
    if auth is None or auth.type == "oauth2":
        return None
    if auth.type in ("bearer", "apikey"):
        return f"{'Bearer' if auth.type == 'bearer' else 'ApiKey'} {auth.token}"
    return "Basic " + base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()


def _check_static_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Raise ValueError for a header that cannot be sent, without its value, which may be a secret."""
    for name, value in lines:
        if _UNSENDABLE.search(value) or len(value) > HEADERS_BYTES_MAX:
            raise ValueError(f"the value of header {name!r} cannot be sent: it is too long, or has control characters")


def templates_of(
    destination: Destination,
    secret: str | None,
    service_name: str,
    clock: Clock,
    filters: Filters | None = None,
    replay: str | None = None,
) -> tuple[Template, ...]:
    """Return what writes the requests for each URL of a destination, its secrets resolved.

    Without ``secret`` requests have no ``X-Signature``. ``replay`` is the id of the replay that they are for.
    """
    signer = Signer(secret) if secret else None
    signing = signing_of(destination, clock)
    made: list[Template] = []
    for webhook in destination.settings.webhooks:
        headers = [
            ("User-Agent", f"{service_name}/1.0"),
            ("Content-Type", "application/json"),
            *request_headers(destination.kind).items(),
            *webhook.headers.items(),
            *([("X-Hookline-Replay", replay)] if replay else []),
        ]
        prefix = b"%b\r\nX-Message-Id: " % _head(parse_receiver_url(webhook.url), headers)
        if signing is None:
            made.append(Template(webhook.url, prefix, signer, filters))
        else:
            made.append(SignedTemplate(webhook.url, prefix, signing, filters))
        made[-1].hide(webhook.headers)
    return tuple(made)


def request_of(url: ReceiverUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a request by itself, which leaves its connection to be closed."""
    own = [("Connection", "close"), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return b"%b\r\n\r\n%b" % (_head(url, [*own, *headers.items()]), body)


def _head(url: ReceiverUrl, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"POST {url.target} HTTP/1.1", f"Host: {url.host_header}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers)]).encode("latin-1")
