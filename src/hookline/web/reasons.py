"""Reasons of routing decisions as sentences; the API gives their codes."""

from __future__ import annotations

NO_DESTINATION = "No destination is connected to this source."

SENTENCES = {
    "aimed_at_others": "It is meant for other destinations only.",
    "source_not_connected": "This destination does not take events of this source.",
    "destination_disabled": "The destination was switched off when the event came.",
    "connected_later": "The destination was connected only after the event had come.",
    "integrations_all_false": "The event's integrations switch off all destinations and do not name this one.",
    "integrations_name_false": "The event's integrations switch off Webhooks.",
}


def in_words(reason: str | None) -> str:
    """The sentence of a code; what is a sentence already stays as it is."""
    return SENTENCES.get(reason, reason) if reason else ""
