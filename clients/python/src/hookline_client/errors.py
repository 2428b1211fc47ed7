"""The exceptions of the library, and the codes that tell why an event was lost.

In production a call raises none of them: what would be raised is counted and told to ``error_handler(code, message)``.
They are raised by wrong options, and by calls when ``strict=True``.
"""

from __future__ import annotations


class HooklineError(Exception):
    """Whatever this library raises; ``code`` is stable, the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class InvalidOption(HooklineError, ValueError):
    """An option of a client cannot be used; raised when the client is made."""


class InvalidCall(HooklineError, ValueError):
    """A call breaks a rule of the API, or is too large."""


class NotQueued(HooklineError):
    """A good call could not be queued: the queue is full, or the client is closed."""


CODES = {
    "invalid_option": "An option of the client cannot be used; raised when the client is made.",
    "not_queued": "The event was not queued: the queue is full, or the client is closed. Raised when strict.",
    "internal_error": "The call failed in a way nobody foresaw; the sentence has the exception.",
    "missing_write_key": "Give the write key of a source; without one nothing is sent.",
    "missing_user_id": "Send userId or anonymousId; an alias needs userId.",
    "missing_previous_id": "An alias needs previousId beside userId.",
    "missing_event": "A track call needs event, the name of what happened.",
    "missing_group_id": "A group call needs groupId.",
    "missing_name": "A page or screen with a category needs a name.",
    "invalid_field": "A field has the wrong type: ids and names are strings or numbers, the rest are mappings.",
    "invalid_timestamp": "timestamp must be a datetime, an ISO 8601 string, or seconds since the epoch.",
    "invalid_message_id": "messageId must be a string of at most 512 characters; leave it out to get one.",
    "not_serialisable": "The event cannot be written as JSON: it is circular, too deep, or holds such a value.",
    "event_too_large": "An event may have at most 32,768 bytes; send less.",
    "before_send_failed": "before_send raised; the event was not sent, as before_send_failure says.",
    "queue_full": "The queue is full: the service does not keep up or cannot be reached.",
    "file_failed": "The log file cannot be written; see what the system says about it.",
    "file_busy": "Another process or thread kept the log file locked for more than a second.",
    "spool_failed": "The spool cannot be written or read; see what the system says about it.",
    "spool_damaged": "The spool held lines that are no events, or files of it are gone; they were left out.",
    "closed": "The client was closed before this event could be sent.",
    "connection_failed": "The service cannot be reached at the endpoint.",
    "curl_failed": "The program curl could not be started; the events were not sent.",
    "timed_out": "The service did not answer in time.",
    "tls_failed": "TLS failed: the certificate cannot be verified, or what answers speaks no TLS; write http:// then.",
    "unexpected_answer": "What answered is not Hookline: check the endpoint.",
    "throttled": "The service asked for a pause for longer than the retry budget.",
    "server_error": "The service failed for longer than the retry budget.",
    "refused": "The service refused the request.",
}
"""Why an event was lost. The service's own codes (``unknown_write_key`` and so on) are passed on as they are."""
