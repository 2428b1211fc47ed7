"""Which secrets the history of a destination still needs, and what its rows are without the others.

A secret is needed as long as it is in force, and for 30 days after: so long an attempt can be shown as it was sent, and
a version rolled back to. ``keep`` stands where one was removed, so that the way back puts the secret of now there, or
says that there is none. References are no secrets and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hookline.connections.model import Destination, StandardWebhooks
from hookline.connections.redaction import KEEP, is_secret_header
from hookline.connections.rotation import until_ms
from hookline.secret_references import is_reference

KEPT_MS = 30 * 86_400_000
"""How long a secret that is no longer in force stays in the history."""

PLACEHOLDER = "whsec_" + "A" * 32
"""In the form that secrets of Standard Webhooks have; for other secrets ``keep`` itself will do."""


class PastRow(NamedTuple):
    """A destination as it was from version ``since`` until ``left_ms``; None while it is in force."""

    since: int
    destination: Destination
    left_ms: int | None


def without_old_secrets(rows: Sequence[PastRow], before_ms: int) -> Iterator[tuple[int, Destination]]:
    """Yield, of all rows of one destination, those that hold a secret which left force before a time, without it."""
    needed = {secret for row in rows for secret in _needed(row, before_ms)}
    for row in rows:
        cleaned = _only(row.destination, needed)
        if cleaned != row.destination:
            yield row.since, cleaned


def is_removed(destination: Destination) -> bool:
    """Return whether a secret of this row of the history was removed."""
    return KEEP in _secrets(destination)


def with_placeholders(destination: Destination) -> Destination:
    """Return a row of the history as something that requests can be written with, where its secrets were removed."""
    standard = destination.settings.standard_webhooks
    if standard is None or standard.secret != KEEP:
        return destination
    settings = replace(destination.settings, standard_webhooks=StandardWebhooks(secret=PLACEHOLDER))
    return replace(destination, settings=settings)


def _needed(row: PastRow, before_ms: int) -> Iterator[str]:
    if row.left_ms is None or row.left_ms >= before_ms:
        yield from _secrets(row.destination)
        for rotation in row.destination.rotations:
            if rotation.previous is not None and until_ms(rotation) >= before_ms:
                yield rotation.previous


def _secrets(destination: Destination) -> Iterator[str]:
    settings = destination.settings
    for webhook in settings.webhooks:
        yield from (value for name, value in webhook.headers.items() if is_secret_header(name))
    if settings.shared_secret is not None:
        yield settings.shared_secret
    if settings.standard_webhooks is not None:
        yield settings.standard_webhooks.secret


def _only(destination: Destination, needed: Collection[str]) -> Destination:
    def left(secret: str) -> str:
        return secret if secret in needed or is_reference(secret) else KEEP

    settings = destination.settings
    webhooks = tuple(
        replace(
            webhook,
            headers={name: left(value) if is_secret_header(name) else value for name, value in webhook.headers.items()},
        )
        for webhook in settings.webhooks
    )
    shared, standard = settings.shared_secret, settings.standard_webhooks
    return replace(
        destination,
        settings=replace(
            settings,
            webhooks=webhooks,
            shared_secret=None if shared is None else left(shared),
            standard_webhooks=None if standard is None else StandardWebhooks(secret=left(standard.secret)),
        ),
        rotations=tuple(
            replace(each, previous=None) if each.previous is not None and each.previous not in needed else each
            for each in destination.rotations
        ),
    )
