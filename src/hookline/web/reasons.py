"""Reasons of a status as sentences; the API gives their codes."""

from __future__ import annotations

from hookline.outcomes.status import QUEUED_BECAUSE

NO_DESTINATION = "No destination is connected to this source."

SENTENCES: dict[str, str] = {
    "aimed_at_others": "The event names other destinations only.",
    "source_not_connected": "This destination is not connected to the event's source.",
    "destination_disabled": "The destination was disabled when the event arrived.",
    "connected_later": "The destination was connected after the event arrived.",
    "integrations_all_false": "The event's integrations turn off all destinations except those it names.",
    "integrations_name_false": "The event's integrations turn off Webhooks.",
    **{reason.value: sentence for reason, sentence in QUEUED_BECAUSE.items()},
}


def in_words(reason: str | None) -> str:
    """Return the sentence of a code; what is a sentence already stays as it is."""
    return SENTENCES.get(reason, reason) if reason else ""
