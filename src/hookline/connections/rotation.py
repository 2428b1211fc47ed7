"""Rotating a secret: the old one and the new one are both good for a chosen time (docs/decisions/0010).

Owns what a rotation does to a destination and what later changes do to a rotation: it goes on as long as nobody
writes another secret, it ends by the clock, and a secret that was rotated out does not come back unasked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import get_args

from msgspec.structs import replace

from hookline.connections.model import (
    AnySettings,
    Destination,
    Rotation,
    SecretSetting,
    StandardWebhooks,
    WebhookSettings,
)
from hookline.events.signature import new_standard_secret
from hookline.events.timestamps import iso

SECRET_SETTINGS: tuple[SecretSetting, ...] = get_args(SecretSetting)
OVERLAP_SECONDS_MAX = 90 * 86_400
REMEMBERED_MAX = 10
"""Secrets rotated out, per setting, that are told from new ones."""
SHARED_SECRET_BYTES = 32


class RotationRefused(Exception):
    """The secret cannot be rotated like that; the message says what to do. ``code`` is a problem's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def secret_of(settings: AnySettings, setting: SecretSetting) -> str | None:
    """Return the secret now in a setting, None where there is none."""
    if setting == "sharedSecret":
        return settings.shared_secret
    return None if settings.standard_webhooks is None else settings.standard_webhooks.secret


def with_secret(settings: AnySettings, setting: SecretSetting, secret: str) -> AnySettings:
    """Return the settings with another secret."""
    if not isinstance(settings, WebhookSettings):
        return settings
    if setting == "sharedSecret":
        return replace(settings, shared_secret=secret)
    return replace(settings, standard_webhooks=StandardWebhooks(secret=secret))


def setting_to_rotate(destination: Destination, named: SecretSetting | None) -> SecretSetting:
    """Return the setting that is meant: the one named, or the only one that holds a secret."""
    found = [each for each in SECRET_SETTINGS if secret_of(destination.settings, each) is not None]
    if named is not None and named not in found:
        raise RotationRefused(
            "nothing_to_rotate", f"settings.{named} holds no secret, so there is none to rotate; set one instead"
        )
    if not found:
        raise RotationRefused(
            "nothing_to_rotate", "the destination signs with no secret yet; set sharedSecret or standardWebhooks"
        )
    if named is None and len(found) > 1:
        raise RotationRefused(
            "setting_not_named", f"the destination has two secrets; say which one rotates: {' or '.join(found)}"
        )
    return named or found[0]


def rotate(
    destination: Destination, setting: SecretSetting, secret: str, overlap_seconds: float, now_ms: int
) -> Destination:
    """Return the destination with a new secret, the one it replaces good for ``overlap_seconds`` more."""
    if not 0 <= overlap_seconds <= OVERLAP_SECONDS_MAX:
        days = OVERLAP_SECONDS_MAX // 86_400
        raise RotationRefused("invalid_overlap", f"the overlap must be between 0s and {days}d")
    previous = secret_of(destination.settings, setting)
    assert previous is not None, "checked by setting_to_rotate"
    if secret == previous:
        raise RotationRefused(
            "secret_unchanged", "that is the secret in use; give another one, or none to have one made"
        )
    if running := running_rotation(destination, setting, now_ms):
        raise RotationRefused(
            "rotation_running",
            f"settings.{setting} is rotating until {running.until}; wait for that, or end the overlap first",
        )
    new = Rotation(
        setting=setting,
        since=iso(now_ms),
        until=iso(now_ms + round(overlap_seconds * 1000)),
        previous=previous if overlap_seconds else None,
        digest=_digest(previous),
    )
    others = [each for each in destination.rotations if each.setting != setting]
    earlier = [_settled(each) for each in destination.rotations if each.setting == setting]
    earlier = [each for each in earlier if each.digest not in (_digest(secret), new.digest)]
    kept = (*others, *earlier[-(REMEMBERED_MAX - 1) :], new)
    return replace(destination, settings=with_secret(destination.settings, setting, secret), rotations=kept)


def end_overlap(destination: Destination, setting: SecretSetting | None, now_ms: int) -> Destination:
    """Return the destination with its overlaps (or that of one setting) ended now: only the new secrets sign."""
    ending = [each for each in running_rotations(destination, now_ms) if setting in (None, each.setting)]
    if not ending:
        what = "no secret of the destination" if setting is None else f"settings.{setting}"
        raise RotationRefused("nothing_rotating", f"{what} is rotating; there is no overlap to end")
    now = iso(now_ms)
    rotations = (replace(_settled(each), until=now) if each in ending else each for each in destination.rotations)
    return replace(destination, rotations=tuple(rotations))


def running_rotations(destination: Destination, now_ms: int) -> tuple[Rotation, ...]:
    """Return the rotations whose overlap has not ended."""
    return tuple(each for each in destination.rotations if each.previous is not None and now_ms < until_ms(each))


def running_rotation(destination: Destination, setting: SecretSetting, now_ms: int) -> Rotation | None:
    """Return the running rotation of one setting; there is at most one."""
    return next((each for each in running_rotations(destination, now_ms) if each.setting == setting), None)


def until_ms(rotation: Rotation) -> int:
    """Return when the overlap ends, in milliseconds since the epoch."""
    return round(datetime.fromisoformat(rotation.until).timestamp() * 1000)


def carry_rotations(destination: Destination, stored: Destination | None) -> Destination:
    """Return the destination with the rotations that its stored state has: they are nobody's to write.

    Another secret ends the overlap, no secret ends everything; what comes in ``destination`` itself is dropped.
    """
    if stored is None or not stored.rotations:
        return replace(destination, rotations=()) if destination.rotations else destination
    carried = []
    for rotation in stored.rotations:
        secret = secret_of(destination.settings, rotation.setting)
        if secret is not None:
            same = secret == secret_of(stored.settings, rotation.setting)
            carried.append(rotation if same else _settled(rotation))
    return replace(destination, rotations=tuple(carried))


def rotated_out(destination: Destination, stored: Destination | None) -> Iterator[SecretSetting]:
    """Yield the settings in which a destination brings back a secret that was rotated out."""
    for setting in SECRET_SETTINGS if stored is not None and stored.rotations else ():
        assert stored is not None
        secret = secret_of(destination.settings, setting)
        if secret is None or secret == secret_of(stored.settings, setting):
            continue
        digest = _digest(secret)
        if any(each.digest == digest for each in stored.rotations if each.setting == setting):
            yield setting


def with_rotated(destination: Destination, stored: Destination | None) -> tuple[Destination, list[SecretSetting]]:
    """Return the destination with the stored secret wherever it has one that was rotated out, and where that was."""
    stale = list(rotated_out(destination, stored))
    settings = destination.settings
    for setting in stale:
        current = secret_of(stored.settings, setting) if stored is not None else None
        assert current is not None
        settings = with_secret(settings, setting, current)
    return (replace(destination, settings=settings) if stale else destination), stale


def new_secret(setting: SecretSetting) -> str:
    """Return a secret nobody can guess, in the form of its setting."""
    if setting == "standardWebhooks":
        return new_standard_secret()
    return secrets.token_urlsafe(SHARED_SECRET_BYTES)


def _settled(rotation: Rotation) -> Rotation:
    return replace(rotation, previous=None)


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
