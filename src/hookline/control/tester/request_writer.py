"""Writes the requests for one event with the very code that deliver sends with, to show them or to try them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from hookline.connections.model import Destination
from hookline.connections.old_secrets import with_placeholders
from hookline.connections.secrets import SecretMissing, resolve_all
from hookline.control.problem import Problem
from hookline.deliver.event import Event
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.failure import Failure
from hookline.deliver.send.pool import Pools, tls_context
from hookline.deliver.send.port import Sink
from hookline.deliver.send.request import Target, targets_of
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.journal.record import Record
from hookline.route.filters import Filters
from hookline.settings import Settings


class Moment:
    """A clock that stands still: signatures carry the time of the attempt that is shown."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms

    def steady_ms(self) -> int:
        """The same."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._now_ms / 1000


class WrittenRequest(NamedTuple):
    """One request as it goes out."""

    number: int
    """Of its URL, from 0."""
    url: str
    target: Target
    data: bytes


class RequestWriter:
    """Knows what all requests share: the service's name, and pools that nothing is ever sent through."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        new_tls = partial(tls_context, settings.deliver.ca_file)
        parts = _Nobody(), Resolver(Guard(())), new_tls()
        self._pools = Pools(*parts, certificate_of=lambda pair: ClientCertificate(pair, settings, new_tls))

    def requests(
        self, destination: Destination, record: Record, at_ms: int, replay: str | None = None
    ) -> list[WrittenRequest]:
        """The request for each URL of a destination, its secrets as they are stored, as of a time.

        Raise Problem when they cannot be made, as deliver could not make them either.
        """
        try:
            filters = Filters(destination.filters) if destination.filters else None
            resolved = resolve_all(with_placeholders(destination), self._settings, at_ms)
            secret, name = resolved.settings.shared_secret, self._settings.service_name
            targets = targets_of(resolved, 0, secret, name, self._pools, Moment(at_ms), filters, replay)
            event = Event(0, record)
            return [WrittenRequest(each.index, each.url, each, each.request(event)) for each in targets]
        except (SecretMissing, ValueError) as error:
            raise Problem(409, "destination_unusable", f"The request cannot be made: {error}.") from None


class _Nobody(Sink):
    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        raise AssertionError("nothing is sent through these pools")
