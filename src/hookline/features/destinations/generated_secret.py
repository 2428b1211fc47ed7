"""``standardWebhooks: {generate: true}``: a secret made here, shown in the answer to that request and never again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hookline.api.problem import FieldError, Problem
from hookline.connections.model import Destination, StandardWebhooks
from hookline.connections.rotation import new_secret

_POINTER = "/settings/standardWebhooks/generate"


def generate_secret(fields: Any, stored: Destination | None) -> tuple[Any, str | None]:
    """Return the body with a new secret in place of ``generate``, and that secret; None when none was asked for.

    Refused where a secret is stored already: replacing that one must be a rotation, or receivers would fail.
    """
    settings: Any = fields.get("settings") if isinstance(fields, dict) else None
    standard: Any = settings.get("standardWebhooks") if isinstance(settings, dict) else None
    if not isinstance(standard, dict) or "generate" not in standard:
        return fields, None
    if standard["generate"] is not True or standard.get("secret") is not None:
        detail = "Write generate: true without a secret to have one made, or a secret without generate."
        raise Problem(422, "invalid_object", detail, [FieldError(_POINTER, "true, and no secret beside it")])
    if stored is not None and stored.settings.standard_webhooks is not None:
        detail = "There is a secret already; replace it with rotate-secret, so that receivers can follow."
        raise Problem(409, "secret_exists", detail, [FieldError(_POINTER, "there is a secret already")])
    secret = new_secret("standardWebhooks")
    given = {**standard, "secret": secret}
    del given["generate"]
    return {**fields, "settings": {**settings, "standardWebhooks": given}}, secret


def revealed(destination: Destination, secret: str | None) -> Destination:
    """Return the redacted destination with the secret that was just made for it, if one was."""
    if secret is None:
        return destination
    settings = replace(destination.settings, standard_webhooks=StandardWebhooks(secret=secret))
    return replace(destination, settings=settings)
