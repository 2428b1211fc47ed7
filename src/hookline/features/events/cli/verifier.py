"""Verifying requests as receivers do: ``X-Signature`` (SPEC 5.1) and Standard Webhooks, with one or more secrets."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Literal

from hookline.events.standard_signature import PREFIX, StandardSigner, standard_key

Verdict = Literal["valid", "invalid", "missing"]

TOLERANCE_SECONDS = 300
"""How far an attempt's time may be from ours, as the specification's own libraries have it."""

SHARED = "X-Signature"
STANDARD = "webhook-signature"


class Verifier:
    """Knows the secrets: those that begin with ``whsec_`` are for Standard Webhooks, the others for X-Signature.

    Raise ValueError for a secret of Standard Webhooks that cannot be one.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self.shared = [secret for secret in secrets if not secret.startswith(PREFIX)]
        self.standard = [secret for secret in secrets if secret.startswith(PREFIX)]
        for secret in self.standard:
            standard_key(secret)

    def verdicts(self, headers: Mapping[str, str], body: bytes, now_seconds: float) -> dict[str, Verdict]:
        """By way of signing, for those we have a secret of; ``headers`` has lower-case names."""
        found: dict[str, Verdict] = {}
        if self.shared:
            found[SHARED] = self._shared_verdict(headers, body)
        if self.standard:
            found[STANDARD] = self._standard_verdict(headers, body, now_seconds)
        return found

    def _shared_verdict(self, headers: Mapping[str, str], body: bytes) -> Verdict:
        # While the secret rotates there are two headers, and a receiver with either secret finds its own.
        given = [headers[name] for name in ("x-signature", "x-signature-next") if name in headers]
        if not given:
            return "missing"
        expected = [hmac.new(secret.encode(), body, hashlib.sha1).hexdigest() for secret in self.shared]
        return "valid" if _any_equal(expected, given) else "invalid"

    def _standard_verdict(self, headers: Mapping[str, str], body: bytes, now_seconds: float) -> Verdict:
        if "webhook-signature" not in headers:
            return "missing"
        id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > len("9999999999"):
            return "invalid"
        if abs(now_seconds - int(timestamp)) > TOLERANCE_SECONDS:
            return "invalid"
        signers = [StandardSigner(secret) for secret in self.standard]
        expected = [signer.sign(id.encode(), int(timestamp), body).decode() for signer in signers]
        return "valid" if _any_equal(expected, headers["webhook-signature"].split(" ")) else "invalid"


def overall(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The worst of them, in one word."""
    return next((each for each in ("invalid", "missing") if each in verdicts.values()), "valid")


def _any_equal(expected: Sequence[str], given: Sequence[str]) -> bool:
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in expected for other in given)
