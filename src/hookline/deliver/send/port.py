"""How requests leave, whoever sends them, and how their results come back.

A caller makes a request's bytes, asks the sender for the route to their URL, and hands them over with a **token**. What
is handed over in one go also has a **target**, one for all. Both are the caller's own and opaque to the sender: it
hands them back with the results, and looks at neither. Results come in runs, once per turn of the event loop, because
what they lead to costs much less for many at once.

Each request has exactly one result, whatever happens: an answer's status, or the outcome that stands for its absence.
Its time runs from the moment it was handed over; whoever owns the sender ends those that take too long by ``sweep``.
The sender tries nothing again, but for a request that provably never reached a receiver, and keeps no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, NamedTuple, Protocol

from hookline.connections.receiver_url import ReceiverUrl
from hookline.outcomes.cause import words_of
from hookline.outcomes.outcome import FINAL, Outcome, refuses_event

Opaque = Any
"""A token or a target."""

Pair = tuple[str, str]
"""References to a client certificate and to its key."""


class Failure:
    """Hold what is known of an attempt that did not succeed."""

    __slots__ = ("error", "head", "is_unsent", "of_batch", "of_event", "of_token", "outcome", "retry_after", "status")

    def __init__(
        self,
        outcome: Outcome,
        status: int | None,
        error: str,
        retry_after: bytes | None = None,
        head: str | None = None,
        of_event: bool | None = None,
        *,
        is_unsent: bool = False,
    ) -> None:
        self.outcome = outcome
        self.status = status
        self.error = error
        self.retry_after = retry_after
        self.head = head
        self.of_event = refuses_event(status) if of_event is None else of_event
        """Whether it is about the one event, and says nothing against its receiver."""
        self.is_unsent = is_unsent
        """Whether nothing of the event was sent: no connection could be made, or a sink did not reach its store."""
        self.of_token = False
        """Whether a token that had ended was refused: another try comes with another one."""
        self.of_batch = False
        """Whether the words are about several events."""

    @property
    def is_final(self) -> bool:
        """Return whether trying again would not help."""
        return self.outcome in FINAL and not self.of_token

    def hide(self, hidden: Callable[[str], str]) -> None:
        """Mask credentials in what the receiver answered: people may read it who may not see what was sent.

        Of words about several events, keep what may be of any: the row of one event stays when that of another goes
        with its person.
        """
        self.error = hidden(self.error)
        self.head = hidden(self.head) if self.head else self.head
        if self.of_batch:
            self.error = words_of(self.error, self.status)


class Answer(NamedTuple):
    """A whole answer: ``head`` is its beginning, ``body`` what was read of it."""

    status: int
    head: str
    body: bytes


Successes = tuple[list[Opaque], Opaque, int, int]
"""Requests that were sent together and answered alike, with 2xx: tokens, target, status and milliseconds."""


class Sink(Protocol):
    """Takes the results of requests."""

    def answered(self, token: Opaque, target: Opaque, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result: ``failure`` is None exactly for a 2xx; ``result`` as in ``outcome.to_number``."""

    def succeeded(self, successes: Iterable[Successes], answered_seconds: float | None = None) -> None:
        """Take the successes of one turn: note them, and begin nothing yet.

        ``answered_seconds``: when the first of them came, by the monotonic clock: a busy turn takes long.
        """
        for tokens, target, status, milliseconds in successes:
            for token in tokens:
                self.answered(token, target, status, milliseconds, None)

    def answered_whole(self, token: Opaque, target: Opaque, answer: Answer, milliseconds: int) -> None:
        """Take the whole answer to a request that was sent by ``Route.ask``; what is none comes to ``answered``."""
        raise TypeError("whoever asks for whole answers takes them")

    def go_on(self) -> None:
        """Begin what the successes of this turn made room for, on their connections."""
        return


class Route(Protocol):
    """The way to the receivers of one origin."""

    def send(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]]) -> None:
        """Send requests, each with its token; none waits for another. The sink takes the results."""

    def ask(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]], body_bytes_max: int) -> None:
        """Send requests whose answers are read whole, up to so many bytes of body, before the sink takes them."""

    def unauthorized(self, milliseconds: int) -> bool:
        """Note a 401 to a request that left so long ago; return whether the next one comes with another token."""
        return False


class Sender(Protocol):
    """All that one process sends, to one sink."""

    def of(self, url: ReceiverUrl, pair: Pair | None = None) -> Route:
        """Return the route to a URL's origin; ``pair`` refers to the client certificate shown there and its key.

        Names are resolved and addresses checked when something is sent, so a route may always be had.
        """

    @property
    def connections(self) -> int:
        """Return how many connections there are."""

    def keep_only(self, used: Set[Route]) -> None:
        """Forget the routes that nothing leads to any more, once their last answers are in."""

    def sweep(self, timeout_seconds: float) -> None:
        """End exchanges that took longer, and connections that had their time; called several times a second."""

    def close(self) -> None:
        """Drop every connection; what has been answered by then is told."""
