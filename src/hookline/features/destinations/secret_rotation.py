"""``POST /api/v1/destinations/{id}/rotate-secret`` and ``end-overlap``; the rules are ``connections.rotation``'s.

A secret that is made here is in the answer, once; one that the caller gives is not.
"""

from __future__ import annotations

import msgspec
from litestar import Controller, post
from litestar.params import JSONBody

from hookline.api.calls import current_author
from hookline.api.listing import Id
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import FromServices, Services
from hookline.connections.edits import Put
from hookline.connections.model import Destination, SecretSetting
from hookline.connections.redaction import redact, stands_for_stored
from hookline.connections.rotation import RotationRefused, end_overlap, new_secret, rotate, setting_to_rotate
from hookline.features.connections.api import refused_as_problem
from hookline.features.connections.journal_ends import journal_ends
from hookline.settings import parse_duration
from hookline.telemetry.log import logger

OVERLAP = "24h"
STATUS_OF_REFUSAL = {
    "nothing_to_rotate": 422,
    "setting_not_named": 422,
    "invalid_overlap": 422,
    "secret_unchanged": 422,
    "rotation_running": 409,
    "nothing_rotating": 409,
}


class RotateRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long both secrets are good (a duration such as ``24h``), the new secret (made when left out), and which
    setting is meant where the destination has two."""

    overlap: str = OVERLAP
    secret: str | None = None
    setting: SecretSetting | None = None


class EndOverlapRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which setting's overlap ends; all that run when left out."""

    setting: SecretSetting | None = None


class RotatedSecret(msgspec.Struct, frozen=True, rename="camel"):
    """The destination after its rotation; ``secret`` is the new one if it was made here, shown this once."""

    destination: Destination
    setting: SecretSetting
    secret: str | None = None


class SecretRotation(Controller):
    """Replacing a destination's secret without one failed event."""

    path = "/destinations/{id:str}"

    @post("/rotate-secret", status_code=200, needs="editor")
    async def rotate_secret(
        self, services: FromServices, object_id: Id, data: JSONBody[RotateRequest | None] = None
    ) -> RotatedSecret:
        """Sign with a new secret, and with the one it replaces until the overlap ends."""
        wanted = data or RotateRequest()
        overlap_seconds = _seconds(wanted.overlap)
        if wanted.secret is not None and stands_for_stored(wanted.secret):
            raise _refusal(RotationRefused("secret_unchanged", "that stands for the secret in use; give another one"))
        version, destination = _destination(services, object_id)
        try:
            setting = setting_to_rotate(destination, wanted.setting)
            secret = wanted.secret if wanted.secret is not None else new_secret(setting)
            rotated = rotate(destination, setting, secret, overlap_seconds, services.store.steady_ms())
        except RotationRefused as refused:
            raise _refusal(refused) from None
        shown = _put(services, rotated, version)
        until = rotated.rotations[-1].until
        logger().info("secret_rotated", destination=object_id, setting=setting, overlap_until=until)
        return RotatedSecret(shown, setting, secret if wanted.secret is None else None)

    @post("/end-overlap", status_code=200, needs="editor")
    async def end_overlap(
        self, services: FromServices, object_id: Id, data: JSONBody[EndOverlapRequest | None] = None
    ) -> Destination:
        """Sign with the new secret alone from now on."""
        wanted = data or EndOverlapRequest()
        version, destination = _destination(services, object_id)
        try:
            ended = end_overlap(destination, wanted.setting, services.store.steady_ms())
        except RotationRefused as refused:
            raise _refusal(refused) from None
        shown = _put(services, ended, version)
        logger().info("secret_overlap_ended", destination=object_id, setting=wanted.setting)
        return shown


def _destination(services: Services, object_id: str) -> tuple[int, Destination]:
    version = services.store.version
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return version, stored.object


def _put(services: Services, destination: Destination, version: int) -> Destination:
    store = services.store
    edit, author = Put(destination, rotating=True), current_author()
    refused_as_problem(
        lambda: store.change([edit], author, None, lambda: journal_ends(services.settings), expected_version=version)
    )
    return redact(destination, now_ms=store.now_ms())


def _seconds(overlap: str) -> float:
    try:
        return parse_duration(overlap)
    except ValueError as error:
        detail = f"The overlap {overlap!r} cannot be used: {error}."
        raise Problem(422, "invalid_overlap", detail, [FieldError("/overlap", str(error))]) from None


def _refusal(refused: RotationRefused) -> Problem:
    sentence = str(refused)
    return Problem(STATUS_OF_REFUSAL[refused.code], refused.code, f"{sentence[:1].upper()}{sentence[1:]}.")
