"""Close two sets: what one attempt came to, and the status of an event at a destination."""

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


_ADVICE: dict[str, str] = {
    Outcome.REFUSED: "The receiver does not accept such events as they are. Compare one with what the receiver expects."
    " Change the receiver, or what your source sends, or drop such events with a filter.",
    Outcome.SERVER_ERROR: "The receiver failed while it handled the request. Its own log says why.",
    Outcome.THROTTLED: "The receiver wants fewer requests. Set a rate limit in the settings of the destination, or ask"
    " the receiver's owner for a higher one.",
    Outcome.TIMED_OUT: "The receiver did not answer in time. Have it answer first and process the event afterwards, or"
    " give it more capacity.",
    Outcome.CONNECTION_FAILED: "Nothing accepts connections at this address. Check that the receiver runs, that the"
    " port is right, and that no firewall is in between.",
    Outcome.NAME_NOT_RESOLVED: "The host name of the URL has no address. Check the URL, and the name servers of the"
    " machine that Hookline runs on.",
    Outcome.TLS_REFUSED: "Hookline does not trust the receiver's certificate, so it sends nothing. Renew the"
    " certificate, or name your own authority in deliver.ca_file.",
    Outcome.BLOCKED_ADDRESS: "The URL leads to an address that is not public. If that is intended, allow it in"
    " deliver.allow_networks and restart.",
    Outcome.BAD_RESPONSE: "What answers at this address does not speak valid HTTP. Check the URL and the port.",
}
_ADVICE_ON_STATUS: dict[int, str] = {
    401: "The receiver does not accept the credentials. Check the headers, the secret, or the client certificate in the"
    " destination's settings.",
    403: "The receiver does not allow this. Check the credentials and the rights behind them, and whether a firewall"
    " blocks Hookline.",
    404: "Nothing is found at this path. Check the webhook URL in the destination's settings.",
    405: "This path takes no POST. Check the webhook URL in the destination's settings.",
    410: "The receiver says that this URL is gone for good. Enter the new URL in the destination's settings.",
    413: "The receiver takes only smaller bodies. Raise its limit, or drop large properties with a filter.",
}


def advice_on(outcome: str, status: int | None) -> str:
    """Return what a person can do about failed attempts; empty if there is nothing to say."""
    if status in _ADVICE_ON_STATUS:
        return _ADVICE_ON_STATUS[status]
    if outcome == Outcome.REFUSED and status is not None and not refuses_event(status):
        return "The receiver answers with a redirect or refuses every request. Check the URL and its settings."
    return _ADVICE.get(outcome, "")


# Progress entries have room for one number: a status, or for an attempt without one, the index in this list.
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


JUDGED = {Outcome.SERVER_ERROR: 2_000, Outcome.REFUSED: 3_000}
"""Added to the number of a status that would mean something else by itself: 200, and the body says that it failed."""


def to_number(outcome: Outcome, status: int | None) -> int:
    """Return the status (100 and up), with more added where the outcome is not that of the status; or a number below
    100 for an outcome without one."""
    if status is None:
        return WITHOUT_STATUS.index(outcome)
    return status if of_status(status) is outcome else JUDGED[outcome] + status


def from_number(number: int) -> tuple[Outcome, int | None]:
    """Return the outcome and status that ``to_number`` was given."""
    number, added = number % PARTIAL, number - number % PARTIAL
    for outcome, judged in JUDGED.items():
        if added == judged:
            return outcome, number
    return (of_status(number), number) if number >= 100 else (WITHOUT_STATUS[number], None)


class DeliveryStatus(StrEnum):
    """The status of an event at one destination, or in a replay."""

    QUEUED = "queued"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FILTERED = "filtered"
    NOT_ROUTED = "not_routed"
    DUPLICATE = "duplicate"
    SUPPRESSED = "suppressed"
    REJECTED = "rejected"
    FAILED = "failed"
    EXPIRED = "expired"
    EXPIRED_BY_RETENTION = "expired_by_retention"
    DISCARDED = "discarded"
    ERASED = "erased"


FINAL_STATUSES = frozenset(DeliveryStatus) - {DeliveryStatus.QUEUED, DeliveryStatus.RETRYING}
"""What changes no more, unless a person replays the event."""


class QueuedReason(StrEnum):
    """Why an event is queued."""

    NEXT = "next"
    CATCHING_UP = "catching_up"
    BREAKER_OPEN = "breaker_open"
    PAUSED = "paused"
    RATE_LIMITED = "rate_limited"
    ORDERED = "ordered"


QUEUED_BECAUSE = {
    QueuedReason.NEXT: "it is sent next",
    QueuedReason.CATCHING_UP: "older events are sent before it",
    QueuedReason.BREAKER_OPEN: "the receiver keeps failing; the event is sent when it is back",
    QueuedReason.PAUSED: "the destination is paused; the event is sent when it is resumed",
    QueuedReason.RATE_LIMITED: "it waits for the destination's rate limit",
    QueuedReason.ORDERED: "an earlier event of the same user is sent before it",
}
"""The reasons as people read them."""

NOT_ROUTED_BECAUSE = {
    "aimed_at_others": "the event names other destinations only",
    "source_not_connected": "the destination is not connected to the event's source",
    "destination_disabled": "the destination was disabled when the event arrived",
    "connected_later": "the destination was connected after the event arrived",
    "integrations_all_false": "the event's integrations turn off all destinations except those they name",
    "integrations_name_false": "the event's integrations turn off destinations of this kind",
}
"""The codes of routing (``route/decision.py``) as people read them."""
BECAUSE: dict[str, str] = {**{each.value: words for each, words in QUEUED_BECAUSE.items()}, **NOT_ROUTED_BECAUSE}

URGENCY = (
    DeliveryStatus.FAILED,
    DeliveryStatus.EXPIRED,
    DeliveryStatus.EXPIRED_BY_RETENTION,
    DeliveryStatus.REJECTED,
    DeliveryStatus.RETRYING,
    DeliveryStatus.QUEUED,
    DeliveryStatus.DELIVERED,
)


def urgency(status: str) -> int:
    """Return the rank of a status, most urgent first; what is not listed comes last.

    The most urgent one stands for the whole event: it matters most to somebody who looks.
    """
    return URGENCY.index(DeliveryStatus(status)) if status in URGENCY else len(URGENCY)


def because(reason: str | None) -> str:
    """Return the reason of a status as people read it, empty where there is none; a sentence stays as it is."""
    return BECAUSE.get(reason, reason) if reason else ""
