"""The way of an event with the databases in PostgreSQL: as on one machine without it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, webhook

SECRET = "s3cret"


def test_events_are_delivered_signed_and_found_again(on_postgres: Callable[..., Hookline], receiver: Receiver) -> None:
    """An event of a real client reaches its receiver, signed; ``why`` tells it; the data folder holds no database."""
    with on_postgres(webhook("crm", receiver.url(), secret=SECRET)) as hookline:
        message = hookline.track()
        (request,) = receiver.wait_for(message)
        assert request.headers["x-signature"] == hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()
        hookline.wait_fate(message, "crm", "delivered")
        assert list(hookline.data.glob("*.db*")) == []
