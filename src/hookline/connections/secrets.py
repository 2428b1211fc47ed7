"""Secrets in connections: which there are, and the destination as the sender needs it.

A shared secret or the value of a header is either the text itself or a reference. References are stored as they are and
resolved where a request is signed and sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hookline.connections.headers import check_static_headers
from hookline.connections.model import Destination, StandardWebhooks, WebhookSettings
from hookline.connections.receiver_url import origin_of
from hookline.connections.rotation import running_rotations
from hookline.events.standard_signature import standard_key
from hookline.secret_references import MASK, SecretMissing, check_secret, is_reference, mask, resolve_in

if TYPE_CHECKING:
    from hookline.settings import Settings

__all__ = [
    "MASK",
    "SecretMissing",
    "check_secret",
    "check_standard_secret",
    "is_reference",
    "mask",
    "new_references",
    "resolve",
    "resolve_all",
]


def check_standard_secret(value: str) -> None:
    """As ``check_secret``, for a secret of Standard Webhooks."""
    check_secret(value)
    if not is_reference(value):
        standard_key(value)


def new_references(wanted: Destination, stored: Destination | None) -> Iterator[str]:
    """Yield the paths of references that ``stored`` does not hold yet, or not for receivers of that origin.

    Whoever may write one may have the secret behind it sent to a receiver of their own choice.
    """
    held = set() if stored is None else {(value, origin) for _, value, origin in _references(stored.settings)}
    for path, value, origin in _references(wanted.settings):
        if (value, origin) not in held:
            yield path


def _references(settings: WebhookSettings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield path, reference, and the origin that it is sent to; a secret to sign with is sent nowhere.

    A client certificate's key is not sent either, but it lets in at a receiver: it counts as sent there.
    """
    for index, webhook in enumerate(settings.webhooks):
        for name, value in webhook.headers.items():
            if is_reference(value):
                yield f"settings.webhooks[{index}].headers.{name}", value, origin_of(webhook.url)
    if settings.shared_secret is not None and is_reference(settings.shared_secret):
        yield "settings.sharedSecret", settings.shared_secret, ()
    if settings.standard_webhooks is not None and is_reference(settings.standard_webhooks.secret):
        yield "settings.standardWebhooks.secret", settings.standard_webhooks.secret, ()
    for origin in {origin_of(webhook.url) for webhook in settings.webhooks}:
        for name, shown in (("clientCertificate", settings.client_certificate), ("clientKey", settings.client_key)):
            if shown is not None:
                yield f"settings.{name}", shown, origin


def resolve(value: str, settings: Settings, environment: Mapping[str, str] | None = None) -> str:
    """Return the secret that ``value`` is or refers to; raise SecretMissing when the reference leads nowhere."""
    return resolve_in(value, settings.secrets.dir, environment)


def resolve_all(destination: Destination, settings: Settings, now_ms: int) -> Destination:
    """Return the destination with every reference replaced by its secret, as the sender needs it at ``now_ms``: of its
    rotations only those that run.

    Raise SecretMissing, also when a secret could not be sent as the value of its header.
    """
    webhooks = []
    for webhook in destination.settings.webhooks:
        headers = {name: resolve(value, settings) for name, value in webhook.headers.items()}
        try:
            check_static_headers(headers)
        except ValueError as error:
            raise SecretMissing(f"a secret of destination {destination.id} cannot be sent: {error}") from None
        webhooks.append(replace(webhook, headers=headers))
    secret = destination.settings.shared_secret
    secret = None if secret is None else resolve(secret, settings)
    standard = destination.settings.standard_webhooks
    if standard is not None:
        standard = StandardWebhooks(secret=resolve(standard.secret, settings))
    resolved = replace(destination.settings, webhooks=tuple(webhooks), shared_secret=secret, standard_webhooks=standard)
    rotations = tuple(
        replace(rotation, previous=resolve(rotation.previous or "", settings))
        for rotation in running_rotations(destination, now_ms)
    )
    return replace(destination, settings=resolved, rotations=rotations)
