"""What one attempt came to: a closed set, and which of it is worth trying again (DESIGN 4 and 6.7)."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of one request to one URL."""

    SUCCESS = "success"
    REFUSED = "refused"
    SERVER_ERROR = "server_error"
    THROTTLED = "throttled"
    TIMED_OUT = "timed_out"
    CONNECTION_FAILED = "connection_failed"
    NAME_NOT_RESOLVED = "name_not_resolved"
    TLS_REFUSED = "tls_refused"
    BLOCKED_ADDRESS = "blocked_address"
    BAD_RESPONSE = "bad_response"


FINAL = frozenset({Outcome.REFUSED, Outcome.BLOCKED_ADDRESS})
"""Trying again would not help; everything else but success is retried within the window."""


def of_status(status: int) -> Outcome:
    """Return the outcome of an HTTP status: any 2xx succeeds; 408, 429 and 5xx are retried; the rest is final."""
    if 200 <= status < 300:
        return Outcome.SUCCESS
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR
    if status == 429:
        return Outcome.THROTTLED
    if status == 408:
        return Outcome.TIMED_OUT
    return Outcome.REFUSED


RECEIVER_STATUSES = frozenset((401, 403, 404, 405, 407, 408, 410, 429))
"""The 4xx that say something of the receiver, or of how it is asked: any event would have met the same."""


def refuses_event(status: int | None) -> bool:
    """Return whether an answer with this status is about the one event, and says nothing against its receiver."""
    return status is not None and 400 <= status < 500 and status not in RECEIVER_STATUSES


# Progress entries have room for one number: a status, or for an attempt without one, the place in this list.
WITHOUT_STATUS = (
    Outcome.SUCCESS,
    Outcome.TIMED_OUT,
    Outcome.CONNECTION_FAILED,
    Outcome.NAME_NOT_RESOLVED,
    Outcome.TLS_REFUSED,
    Outcome.BLOCKED_ADDRESS,
    Outcome.BAD_RESPONSE,
)


PARTIAL = 1_000
"""Added to the number of a success that did not end the delivery: other URLs had yet to accept it too."""


def to_number(outcome: Outcome, status: int | None) -> int:
    """Return the status (100 and up), or a number below 100 for an outcome without one."""
    return status if status is not None else WITHOUT_STATUS.index(outcome)


def from_number(number: int) -> tuple[Outcome, int | None]:
    """Return the outcome and status that ``to_number`` was given."""
    number %= PARTIAL
    return (of_status(number), number) if number >= 100 else (WITHOUT_STATUS[number], None)
