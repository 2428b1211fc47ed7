"""The query parameters of the admin API, by the name that operations call them."""

from __future__ import annotations

from typing import Any

from hookline.control.event_log import FATES
from hookline.control.listing import LIMIT_DEFAULT, LIMIT_MAX
from hookline.control.notices import STATES
from hookline.insights.resolutions import SPANS
from hookline.outcomes.outcome import Outcome
from hookline.telemetry.notices import KINDS

PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "limit": (
        "How many items to return at most.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    "after": ("The `after` of the last answer.", {"type": "string"}),
    "source": ("Only this source (its id).", {"type": "string"}),
    "destination": ("Only this destination (its id).", {"type": "string"}),
    "state": ("Only notices that are open, or only resolved ones.", {"type": "string", "enum": list(STATES)}),
    "subject": ("Only notices about this: the id of a destination or source, the name of a role.", {"type": "string"}),
    "kind": ("Only notices of this kind.", {"type": "string", "enum": list(KINDS)}),
    "outcome": ("Only those whose last attempt ended so.", {"type": "string"}),
    "letterFate": ("`failed`, `expired` or `discarded`.", {"type": "string"}),
    "givenUpFrom": ("Only those given up at or after this time.", {"type": "string", "format": "date-time"}),
    "givenUpTo": ("Only those given up before this time.", {"type": "string", "format": "date-time"}),
    "type": ("Only this message type.", {"type": "string"}),
    "event": ("Only track calls of this event, or pages and screens of this name.", {"type": "string"}),
    "userId": ("Only this user id (or anonymous id, for events without a user).", {"type": "string"}),
    "requestedUserId": ("Only requests that were made for this user id.", {"type": "string"}),
    "removeSecrets": (
        "Remove the secrets of the destination from the history at once, not 30 days later.",
        {"type": "boolean", "default": False},
    ),
    "explainedUserId": ("The person with this user id.", {"type": "string"}),
    "anonymousId": ("The person this anonymous id belongs to, instead of `userId`.", {"type": "string"}),
    "messageId": ("Only this message id.", {"type": "string"}),
    "text": ("Only events that hold this text anywhere, in capital or small letters.", {"type": "string"}),
    "by": ("Sum up by day or by month (UTC).", {"type": "string", "enum": ["day", "month"], "default": "month"}),
    "from": ("First day; by default the first of the last day's month.", {"type": "string", "format": "date"}),
    "to": ("Last day; by default today.", {"type": "string", "format": "date"}),
    "name": ("Only events of this name.", {"type": "string"}),
    "months": ("How many months.", {"type": "integer", "minimum": 1, "maximum": 24, "default": 12}),
    "attemptOutcome": ("Only attempts that ended so.", {"type": "string", "enum": list(Outcome)}),
    "status": ("Only attempts answered so.", {"type": "integer", "minimum": 100, "maximum": 599}),
    "url": ("Only attempts at this URL.", {"type": "string"}),
    "attemptFrom": ("Only attempts that began at or after this time.", {"type": "string", "format": "date-time"}),
    "attemptTo": ("Only attempts that began before this time.", {"type": "string", "format": "date-time"}),
    "range": ("How far back.", {"type": "string", "enum": list(SPANS), "default": "1h"}),
    "failingLimit": (
        "How many to return at most.",
        {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
    ),
    "actor": ("Only what this account, token (`token NAME`) or the `admin token` did.", {"type": "string"}),
    "action": ("Only this action, such as `create_destination`.", {"type": "string"}),
    "target": ("Only what was done to this object, such as `destinations/crm`.", {"type": "string"}),
    "happenedFrom": ("Only what happened at or after this time.", {"type": "string", "format": "date-time"}),
    "happenedTo": ("Only what happened before this time.", {"type": "string", "format": "date-time"}),
    "fate": ("Only events that have this fate at some destination.", {"type": "string", "enum": list(FATES)}),
}

NAMES = {
    "letterFate": "fate",
    "requestedUserId": "userId",
    "explainedUserId": "userId",
    "givenUpFrom": "from",
    "givenUpTo": "to",
    "happenedFrom": "from",
    "happenedTo": "to",
    "failingLimit": "limit",
    "attemptOutcome": "outcome",
    "attemptFrom": "from",
    "attemptTo": "to",
}
"""Parameters that are called the same at different addresses and mean something else."""
