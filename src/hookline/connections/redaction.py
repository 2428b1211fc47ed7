"""Showing a destination without its secrets, and taking it back with the secrets it stands for.

What goes out to a page, an API client or an exported file has masks or ``keep`` where secrets are; what comes back
with them leaves the stored ones as they are. Secrets are the two to sign with, those that rotate out, and the headers
that carry credentials.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from hookline.connections.model import Destination, Rotation, StandardWebhooks, Webhook
from hookline.connections.receiver_url import origin_of
from hookline.connections.rotation import running_rotations
from hookline.connections.secrets import MASK, is_reference, mask

KEEP = "keep"
"""Written in place of a secret: leave the stored one as it is."""

_SECRET_HEADER = re.compile(r"auth|cookie|key|password|secret|signature|token", re.IGNORECASE)


class NothingToKeep(ValueError):
    """``keep`` was written where no secret is stored; ``path`` names the place."""

    def __init__(self, path: str) -> None:
        super().__init__("there is no stored secret to keep here; write the secret or a reference to it")
        self.path = path


def is_secret_header(name: str) -> bool:
    """Return whether a static header's value is a credential, by the header's name."""
    return _SECRET_HEADER.search(name) is not None


def stands_for_stored(value: str) -> bool:
    """Return whether a value is ``keep`` or a mask."""
    return value == KEEP or value.startswith(MASK)


def redact(destination: Destination, keep: bool = False, now_ms: int = 0) -> Destination:
    """Return the destination with its secrets masked, or with ``keep`` in their place, and the rotations that run
    still."""

    def hidden(secret: str) -> str:
        return KEEP if keep and not is_reference(secret) else mask(secret)

    settings = destination.settings
    webhooks = tuple(
        replace(
            webhook,
            headers={
                name: hidden(value) if is_secret_header(name) else value for name, value in webhook.headers.items()
            },
        )
        for webhook in settings.webhooks
    )
    secret = None if settings.shared_secret is None else hidden(settings.shared_secret)
    standard = settings.standard_webhooks
    if standard is not None:
        standard = StandardWebhooks(secret=hidden(standard.secret))
    return replace(
        destination,
        settings=replace(settings, webhooks=webhooks, shared_secret=secret, standard_webhooks=standard),
        rotations=tuple(_shown(rotation) for rotation in running_rotations(destination, now_ms)),
    )


def restore(destination: Destination, stored: Destination | None) -> Destination:
    """Return the destination with each ``keep`` and each mask replaced by the secret it stands for.

    Raise NothingToKeep where ``keep`` has no stored secret. A header's value is kept only for a webhook of the same
    origin (scheme, host, port), so that a credential never moves to another receiver unseen.
    """
    settings = destination.settings
    standard = settings.standard_webhooks
    unsigned = settings.shared_secret is None and standard is None
    if unsigned and not any(webhook.headers for webhook in settings.webhooks):
        return destination
    before = None if stored is None else stored.settings
    webhooks = tuple(
        _restore_headers(webhook, () if before is None else before.webhooks, f"settings.webhooks[{index}]")
        for index, webhook in enumerate(settings.webhooks)
    )
    secret = settings.shared_secret
    if secret is not None:
        secret = _restored(secret, None if before is None else before.shared_secret, "settings.sharedSecret")
    if standard is not None:
        old = None if before is None or before.standard_webhooks is None else before.standard_webhooks.secret
        standard = StandardWebhooks(secret=_restored(standard.secret, old, "settings.standardWebhooks.secret"))
    restored = replace(settings, webhooks=webhooks, shared_secret=secret, standard_webhooks=standard)
    return replace(destination, settings=restored)


def _shown(rotation: Rotation) -> Rotation:
    return replace(rotation, previous=mask(rotation.previous or ""), digest="")


def _restore_headers(webhook: Webhook, stored: tuple[Webhook, ...], path: str) -> Webhook:
    same_url = [other for other in stored if other.url == webhook.url]
    same_origin = [other for other in stored if origin_of(other.url) == origin_of(webhook.url)]
    before: dict[str, str] = {}
    for other in (*same_url, *same_origin):
        for name, value in other.headers.items():
            before.setdefault(name.lower(), value)
    headers = {
        name: _restored(value, before.get(name.lower()), f"{path}.headers.{name}") if is_secret_header(name) else value
        for name, value in webhook.headers.items()
    }
    return replace(webhook, headers=headers)


def _restored(value: str, stored: str | None, path: str) -> str:
    if not stands_for_stored(value):
        return value
    if stored is None or (value != KEEP and value != mask(stored)):
        raise NothingToKeep(path)
    return stored
