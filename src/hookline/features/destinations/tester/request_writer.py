"""Write the requests for one event with the very code that deliver sends with, and show them as people read them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookline.api.problem import FieldError, Problem
from hookline.connections.kinds import (
    STAND_IN,
    plan_of,
    resolved_auth,
    usual_settings,
    with_stand_ins,
    without_stand_ins,
)
from hookline.connections.model import Destination, is_webhook
from hookline.connections.receiver_url import ReceiverUrl
from hookline.connections.secrets import (
    MASK,
    SecretMissing,
    is_reference,
    is_secret_header,
    mask,
    resolve_all,
    with_placeholders,
)
from hookline.deliver.event import Event
from hookline.deliver.send.port import Answer, Pair
from hookline.deliver.send.request import MappedTemplate, mapped_templates, templates_of
from hookline.events.body import render_plain
from hookline.events.timestamps import iso
from hookline.events.view import fields_of
from hookline.journal.record import Record
from hookline.kinds.answers import Verdict
from hookline.kinds.mapping import MappingFailed
from hookline.kinds.model import PER_EVENT_MAX, Auth
from hookline.kinds.requests import CompiledRequest, Fields, event_fields, too_many
from hookline.kinds.settings import secrets_in
from hookline.route.filters import Filters, filters_of
from hookline.settings import Settings


class Moment:
    """A clock that stands still: signatures carry the time of the attempt that is shown."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return the same."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._now_ms / 1000


class WrittenRequest(NamedTuple):
    """One request as it goes out."""

    number: int
    """Among those that the event becomes, from 0; of a webhook that of its URL."""
    url: str
    """As its attempts name it."""
    data: bytes
    receiver: ReceiverUrl
    certificate: Pair | None
    """What is shown to the receiver of us, as references."""
    hidden: Callable[[str], str]
    """Masks what a receiver sends back of the credentials."""
    name: str = ""
    """Of the request in its mapping; a webhook has none."""
    masked: bytes | None = None
    """The same without any secret; None where static headers alone hold some."""
    reads_secrets: bool = False
    """Says whether its mapping reads one, by the paths in it; what it makes of it need not look like one."""
    judged: Callable[[Answer], Verdict] | None = None
    """Says what an answer means by the rules of the request; None for those of webhooks."""
    client: Auth | None = None
    """For which a token is fetched first, which ``data`` then is to carry; None where there is none to fetch."""

    def with_token(self, token: str) -> WrittenRequest:
        """Return the request with a token that was fetched for it, which is masked in what a receiver sends back."""
        first, end, rest = self.data.partition(b"\r\n")
        line = f"Authorization: Bearer {token}\r\n".encode("latin-1")
        hidden = self.hidden
        return self._replace(
            data=first + end + line + rest, hidden=lambda text: hidden(text.replace(token, mask(token)))
        )


class Written(NamedTuple):
    """The requests that an event becomes, and why others cannot be made, each with its place in the destination."""

    requests: Sequence[WrittenRequest]
    problems: Sequence[FieldError]


class RequestWriter:
    """Writes requests; knows what all of them share, the service's name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def requests(
        self, destination: Destination, record: Record, at_ms: int, replay: str | None = None
    ) -> Sequence[WrittenRequest]:
        """Return the requests for one event, the secrets of the destination as they are stored, as of a time.

        Raise Problem when one cannot be made, as deliver could not make it either.
        """
        written = self.written(destination, record, at_ms, replay)
        if written.problems:
            first = written.problems[0]
            raise Problem(409, "destination_unusable", f"The request cannot be made: {first.detail}.", written.problems)
        return written.requests

    def written(
        self,
        destination: Destination,
        record: Record,
        at_ms: int,
        replay: str | None = None,
        with_secrets: bool = True,
    ) -> Written:
        """Return the requests as ``requests`` does, with what is wrong with others that the event should become.

        Those of a mapping that are only shown are made without secrets: whether one can be made may depend on what a
        secret holds. Raise Problem when the destination cannot be used for any event.
        """
        try:
            filters = filters_of(destination)
            resolved = resolve_all(with_placeholders(destination), self._settings, at_ms)
            if not is_webhook(destination.kind):
                return self._mapped(resolved, with_stand_ins(destination), record, filters, replay, with_secrets)
            secret, name = resolved.settings.shared_secret, self._settings.service_name
            event, pair = Event(0, record), resolved.settings.certificate_pair
            requests = [
                WrittenRequest(number, each.url, each.request(event), each.receiver, pair, each.hidden)
                for number, each in enumerate(templates_of(resolved, secret, name, Moment(at_ms), filters, replay))
            ]
            return Written(requests, ())
        except (SecretMissing, ValueError) as error:
            raise Problem(409, "destination_unusable", f"The request cannot be made: {error}.") from None

    def shown_only(self, destination: Destination, record: Record) -> Written:
        """Return the requests of a destination that is not saved and no webhook, without any of its secrets.

        They are not to be sent. Raise ValueError for what was never checked.
        """
        stand_ins = with_stand_ins(destination)
        return self._mapped(stand_ins, stand_ins, record, filters_of(destination), None, False)

    def _mapped(
        self,
        resolved: Destination,
        masked: Destination,
        record: Record,
        filters: Filters | None,
        replay: str | None,
        with_secrets: bool,
    ) -> Written:
        name = self._settings.service_name
        places, secrets = [], []
        for place, secret in secrets_in(resolved.kind, usual_settings(resolved)):
            places.append(place)
            secrets.append(secret)
        plan, shown_plan = plan_of(resolved), plan_of(masked)
        templates = mapped_templates(resolved, plan, secrets, name, replay)
        shown_templates = mapped_templates(masked, shown_plan, (STAND_IN,), name, replay)
        body = render_plain(record)
        if filters is not None and filters.edits:
            body = filters.body(record, body, canonical=False)
        fields = fields_of(record, body)
        seen, shown = (event_fields(fields, each.settings, iso(record.received_at)) for each in (plan, shown_plan))
        auth = resolved_auth(resolved)
        client = auth if auth is not None and auth.type == "oauth2" else None
        requests: list[WrittenRequest] = []
        problems: list[FieldError] = []
        for number, index in enumerate(plan.matching(seen)):
            if number == PER_EVENT_MAX:
                problems.append(FieldError(f"/mapping/{index}", too_many(len(plan.matching(seen))).sentence))
                break
            template = templates[index]
            try:
                without = _written(shown_templates[index], shown_plan.requests[index], shown, body, record)
                data = _written(template, plan.requests[index], seen, body, record) if with_secrets else without
            except MappingFailed as error:
                problems.append(FieldError(f"/mapping/{index}{error.path}", error.sentence))
                continue
            requests.append(
                WrittenRequest(
                    number=number,
                    url=template.url,
                    data=data,
                    receiver=template.receiver,
                    certificate=resolved.settings.certificate_pair,
                    hidden=template.hidden,
                    name=plan.requests[index].name,
                    masked=without,
                    reads_secrets=_reads_any(plan.requests[index].paths, places),
                    client=client,
                    judged=lambda answer, by=template: by.judged(answer, 1)[0],  # type: ignore[misc]
                )
            )
        return Written(requests, problems)


def _reads_any(paths: Collection[str], places: Sequence[str]) -> bool:
    """Return whether a path leads to one of these places, to what is around one, or into it."""
    return any(
        path == "" or place == path or place.startswith(f"{path}.") or path.startswith(f"{place}.")
        for path in paths
        for place in places
    )


def _written(template: MappedTemplate, request: CompiledRequest, fields: Fields, plain: bytes, record: Record) -> bytes:
    """Return the request for one event, as a batch of one where it goes in batches; raise MappingFailed."""
    rendered = request.render(fields, lambda: plain)
    if request.batch is None:
        return template.write(rendered.target, rendered.headers, rendered.body, record.message_id)
    return template.write(rendered.target, rendered.headers, request.join([rendered.body]), None)


SIGNATURE_HEADERS = ("X-Signature", "X-Signature-Next")


class Header(msgspec.Struct, frozen=True):
    """One header line."""

    name: str
    value: str


class Signature(msgspec.Struct, frozen=True, rename="camel"):
    """A header that signs the request: ``algorithm`` over exactly ``signedContent``, keyed with ``secret``."""

    header: str
    value: str
    algorithm: str
    secret: str
    signed_content: str


class ShownRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request as it is sent. If ``masked``, credentials are hidden, and lengths are those of what is shown. ``name``
    is its name in the mapping, null for a webhook."""

    name: str | None
    url: str
    method: str
    target: str
    headers: Sequence[Header]
    body: str
    body_bytes: int
    signatures: Sequence[Signature]
    masked: bool


def shown(written: WrittenRequest, destination: Destination, reveal: bool) -> ShownRequest:
    """Return the request taken apart; ``destination`` as it is stored says which headers hold secrets."""
    if written.masked is not None:
        return _shown_mapped(written, written.masked, reveal)
    parts = _taken_apart(written.data)
    static = destination.settings.webhooks[written.number].headers
    hidden = [header if reveal else _masked(header, static) for header in parts.headers]
    return ShownRequest(
        name=None,
        url=written.url,
        method=parts.method,
        target=parts.target,
        headers=hidden,
        body=parts.body,
        body_bytes=parts.body_bytes,
        signatures=_signatures(parts.headers, parts.body),
        masked=hidden != parts.headers,
    )


def _shown_mapped(written: WrittenRequest, masked: bytes, reveal: bool) -> ShownRequest:
    """Return a request of a mapping: unless revealed, as it is made without its secrets, which a mapping may put
    anywhere and change. Nothing of it is measured on, or compared with, the real one: whoever writes the mapping could
    make that depend on what a secret holds."""
    parts, is_masked = _taken_apart(written.data if reveal else masked), False
    if not reveal:
        target, body = without_stand_ins(parts.target), without_stand_ins(parts.body)
        size = parts.body_bytes if body == parts.body else len(body.encode())
        headers = [
            Header(each.name, str(size))
            if each.name == "Content-Length"
            else Header(each.name, f"{each.value.partition(' ')[0]} {MASK}")
            if each.name == "Authorization" and each.value.startswith("Basic ")
            else Header(each.name, without_stand_ins(each.value))
            for each in parts.headers
        ]
        is_masked = written.reads_secrets or (target, body, headers) != (parts.target, parts.body, parts.headers)
        if written.client is not None:
            headers.insert(0, Header("Authorization", f"Bearer {MASK}"))
            is_masked = True
        parts = parts._replace(target=target, headers=headers, body=body, body_bytes=size)
    return ShownRequest(
        name=written.name,
        url=f"{written.receiver.scheme}://{written.receiver.host_header}{parts.target}",
        method=parts.method,
        target=parts.target,
        headers=parts.headers,
        body=parts.body,
        body_bytes=parts.body_bytes,
        signatures=(),
        masked=is_masked,
    )


class _Parts(NamedTuple):
    method: str
    target: str
    headers: list[Header]
    body: str
    body_bytes: int


def _taken_apart(data: bytes) -> _Parts:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = [Header(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return _Parts(method, target, headers, body.decode("utf-8", "replace"), len(body))


def without_signatures(request: ShownRequest) -> ShownRequest:
    """Return the request with its signatures masked: those of secrets that are not known would be wrong."""
    signatures = {each.header for each in request.signatures}
    headers = [Header(each.name, MASK) if each.name in signatures else each for each in request.headers]
    return msgspec.structs.replace(request, headers=headers, signatures=(), masked=True)


def _masked(header: Header, static: Mapping[str, str]) -> Header:
    stored = static.get(header.name)
    if stored is None or not (is_secret_header(header.name) or is_reference(stored)):
        return header
    return Header(header.name, MASK if is_reference(stored) else mask(header.value))


def _signatures(headers: Sequence[Header], body: str) -> list[Signature]:
    by_name = {header.name: header.value for header in headers}
    found = [
        Signature(name, by_name[name], "HMAC-SHA1, hex", "sharedSecret", body)
        for name in SIGNATURE_HEADERS
        if name in by_name
    ]
    if "webhook-signature" in by_name:
        signed = f"{by_name['webhook-id']}.{by_name['webhook-timestamp']}.{body}"
        value = by_name["webhook-signature"]
        found.append(Signature("webhook-signature", value, "HMAC-SHA256, base64", "standardWebhooks.secret", signed))
    return found
