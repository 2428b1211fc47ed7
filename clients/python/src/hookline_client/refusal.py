"""Whether a request was refused because of an event in it: then its parts are sent to find the event."""

from __future__ import annotations

from hookline_client.answer import Answer

CONTENT_CODES = frozenset(
    {"invalid_json", "invalid_utf8", "invalid_body", "nesting_too_deep", "event_too_large", "batch_too_large"}
)


def is_about_content(answer: Answer) -> bool:
    """Whether the service says so in its own words, or anything before it says 413. A bare 400 may mean everything."""
    return answer.status == 413 or answer.code in CONTENT_CODES
