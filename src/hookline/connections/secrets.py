"""Secrets in connections: which there are, and the destination as the sender needs it.

A shared secret or the value of a header is either the text itself or a reference. References are stored as they are and
resolved where a request is signed and sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from hookline.connections.kinds import kind_problems, origins_of, unfit_settings, usual_settings
from hookline.connections.model import (
    Destination,
    Rotation,
    StandardWebhooks,
    Webhook,
)
from hookline.connections.receiver_url import origin_of
from hookline.connections.rotation import running_rotations, until_ms
from hookline.events.signature import standard_key
from hookline.kinds.headers import check_static_headers
from hookline.kinds.model import KindSettings
from hookline.kinds.settings import change_secrets, secrets_in
from hookline.secret_references import (
    KEEP,
    MASK,
    SecretMissing,
    check_secret,
    is_reference,
    mask,
    resolve_in,
    stands_for_stored,
)

if TYPE_CHECKING:
    from hookline.settings import Settings


__all__ = [
    "KEEP",
    "MASK",
    "SecretMissing",
    "check_secret",
    "check_standard_secret",
    "is_reference",
    "mask",
    "new_references",
    "resolve",
    "resolve_all",
    "stands_for_stored",
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
    held = set() if stored is None else {(value, origin) for _, value, origin in _references(stored)}
    for path, value, origin in _references(wanted):
        if (value, origin) not in held:
            yield path


def _references(destination: Destination) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield path, reference, and the origin that it is sent to; a secret to sign with is sent nowhere.

    A client certificate's key is not sent either, but it lets in at a receiver: it counts as sent there.
    """
    settings = destination.settings
    if isinstance(settings, KindSettings):
        found = [*secrets_in(destination.kind, settings)]
        found += [
            (f"settings.{name}", value)
            for name, value in (("clientCertificate", settings.client_certificate), ("clientKey", settings.client_key))
            if value is not None
        ]
        origins = origins_of(destination)
        yield from ((path, value, origin) for path, value in found if is_reference(value) for origin in origins)
        return
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
    if isinstance(destination.settings, KindSettings):
        usual = usual_settings(destination)
        known = change_secrets(destination.kind, usual, lambda path, secret: resolve(secret, settings))
        return replace(destination, settings=known)
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


def why_unusable(destination: Destination, settings: Settings, now_ms: int) -> str | None:
    """Return why no request can be made for a destination: a secret that it refers to is missing, or its settings do
    not fit its kind; None where there is no reason. No attempt has it, for there is none."""
    if (unfit := unfit_settings(destination)) is not None:
        return f"nothing is sent, because {unfit}"
    try:
        resolve_all(destination, settings, now_ms)
    except (SecretMissing, ValueError) as error:
        return f"nothing is sent, because {error}"
    return None


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
    if isinstance(destination.settings, KindSettings):
        return destination
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
    if isinstance(settings, KindSettings):
        yield from (secret for _, secret in secrets_in(destination.kind, settings))
        return
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
    if isinstance(settings, KindSettings):
        left_over = change_secrets(destination.kind, settings, lambda path, secret: left(secret))
        return replace(destination, settings=left_over)
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


_SECRET_HEADER = re.compile(r"auth|cookie|key|password|secret|signature|token", re.IGNORECASE)


class NothingToKeep(ValueError):
    """``keep`` was written where no secret is stored; ``path`` names the place."""

    def __init__(self, path: str, moved: bool = False) -> None:
        """``moved``: there is a secret, which must not go to the hosts that the requests go to now."""
        text = "there is no stored secret to keep here; write the secret or a reference to it"
        super().__init__("the requests go to another host now; write the secret again" if moved else text)
        self.path = path


def is_secret_header(name: str) -> bool:
    """Return whether a static header's value is a credential, by the header's name."""
    return _SECRET_HEADER.search(name) is not None


def redact(destination: Destination, keep: bool = False, now_ms: int = 0) -> Destination:
    """Return the destination with its secrets masked, or with ``keep`` in their place, and the rotations that run
    still."""

    def hidden(secret: str) -> str:
        return KEEP if keep and not is_reference(secret) else mask(secret)

    settings = destination.settings
    if isinstance(settings, KindSettings):
        masked = change_secrets(destination.kind, settings, lambda path, secret: hidden(secret))
        return replace(destination, settings=masked)
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
    if isinstance(settings, KindSettings):
        return _restored_kind(destination, stored)
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


def _restored_kind(destination: Destination, stored: Destination | None) -> Destination:
    """Restore the secrets of a destination that is no webhook; they are kept only for the receivers that had them."""
    before: dict[str, str] = {}
    if stored is not None and stored.kind == destination.kind and isinstance(stored.settings, KindSettings):
        before = dict(secrets_in(stored.kind, stored.settings))
    kept: list[str] = []

    def restored(path: str, secret: str) -> str:
        if stands_for_stored(secret):
            kept.append(path)
        return _restored(secret, before.get(path), path)

    settings = destination.settings
    assert isinstance(settings, KindSettings)
    made = replace(destination, settings=change_secrets(destination.kind, settings, restored))
    moved = bool(kept) and (stored is None or not origins_of(made) <= origins_of(stored))
    if moved and not any(True for _ in kind_problems(made)):  # what cannot be used is refused for what is wrong with it
        raise NothingToKeep(kept[0], moved=stored is not None)
    return made


def _shown(rotation: Rotation) -> Rotation:
    return replace(rotation, previous=mask(rotation.previous or ""), digest="")


def _restore_headers(webhook: Webhook, stored: tuple[Webhook, ...], path: str) -> Webhook:
    same_url = [other for other in stored if other.url == webhook.url]
    same_origin = [other for other in stored if origin_of(other.url) == origin_of(webhook.url)]

    def before(name: str, value: str) -> str | None:
        """Return the stored value that is meant, None where several may be."""
        for others in (same_url, same_origin):
            found = {old for other in others for each, old in other.headers.items() if each.lower() == name.lower()}
            if found:
                meant = [old for old in found if value in (KEEP, mask(old))]
                return meant[0] if len(meant) == 1 else None
        return None

    headers = {
        name: _restored(value, before(name, value), f"{path}.headers.{name}")
        if is_secret_header(name) and stands_for_stored(value)
        else value
        for name, value in webhook.headers.items()
    }
    return replace(webhook, headers=headers)


def _restored(value: str, stored: str | None, path: str) -> str:
    if not stands_for_stored(value):
        return value
    if stored is None or (value != KEEP and value != mask(stored)):
        raise NothingToKeep(path)
    return stored
