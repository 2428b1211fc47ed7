"""Writes the requests for one event with the very code that deliver sends with, to show them or to try them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hookline.api.problem import Problem
from hookline.connections.model import Destination
from hookline.connections.receiver_url import ReceiverUrl
from hookline.connections.secrets import SecretMissing, resolve_all, with_placeholders
from hookline.deliver.event import Event
from hookline.deliver.send.port import Pair
from hookline.deliver.send.request import templates_of
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
        """Return the same."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._now_ms / 1000


class WrittenRequest(NamedTuple):
    """One request as it goes out."""

    number: int
    """Of its URL, from 0."""
    url: str
    data: bytes
    receiver: ReceiverUrl
    certificate: Pair | None
    """What is shown to the receiver of us, as references."""
    hidden: Callable[[str], str]
    """Masks what a receiver sends back of the credentials."""


class RequestWriter:
    """Writes requests; knows what all of them share, the service's name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def requests(
        self, destination: Destination, record: Record, at_ms: int, replay: str | None = None
    ) -> list[WrittenRequest]:
        """Return the request for each URL of a destination, its secrets as they are stored, as of a time.

        Raise Problem when they cannot be made, as deliver could not make them either.
        """
        try:
            filters = Filters(destination.filters) if destination.filters else None
            resolved = resolve_all(with_placeholders(destination), self._settings, at_ms)
            secret, name = resolved.settings.shared_secret, self._settings.service_name
            event, pair = Event(0, record), resolved.settings.certificate_pair
            return [
                WrittenRequest(number, each.url, each.request(event), each.receiver, pair, each.hidden)
                for number, each in enumerate(templates_of(resolved, secret, name, Moment(at_ms), filters, replay))
            ]
        except (SecretMissing, ValueError) as error:
            raise Problem(409, "destination_unusable", f"The request cannot be made: {error}.") from None
