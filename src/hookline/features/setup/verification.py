"""How a receiver verifies what a destination's requests are signed with: which header, and code to paste."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.model import SecretSetting, WebhookSettings
from hookline.connections.rotation import secret_of
from hookline.features.setup import verifying
from hookline.features.setup.snippets import Snippet


class Verification(NamedTuple):
    """One way of signing: the header, what is signed, and a function for each language."""

    id: str
    title: str
    header: str
    rule: str
    snippets: Sequence[Snippet]


_LANGUAGES = (("node", "Node.js"), ("python", "Python"), ("go", "Go"), ("php", "PHP"))


def _snippets(*texts: str) -> list[Snippet]:
    return [Snippet(id, title, "", text) for (id, title), text in zip(_LANGUAGES, texts, strict=True)]


WAYS: dict[SecretSetting, Verification] = {
    "sharedSecret": Verification(
        "shared",
        "X-Signature",
        "X-Signature",
        "The hex HMAC-SHA1 of the body's bytes, keyed with the shared secret. While the secret rotates, the new one's"
        " signature is in X-Signature-Next.",
        _snippets(verifying.SHARED_NODE, verifying.SHARED_PYTHON, verifying.SHARED_GO, verifying.SHARED_PHP),
    ),
    "standardWebhooks": Verification(
        "standard",
        "Standard Webhooks",
        "webhook-signature",
        "v1, and the base64 HMAC-SHA256 of webhook-id, webhook-timestamp and the body's bytes with full stops between"
        " them. What is more than five minutes old is refused.",
        _snippets(verifying.STANDARD_NODE, verifying.STANDARD_PYTHON, verifying.STANDARD_GO, verifying.STANDARD_PHP),
    ),
}


def verifications_of(settings: WebhookSettings) -> list[Verification]:
    """Return the ways that a destination signs in."""
    return [way for setting, way in WAYS.items() if secret_of(settings, setting) is not None]
