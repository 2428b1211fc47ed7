"""What ``hookline listen`` takes for a good signature."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from hookline.events.signature import StandardSigner, new_standard_secret
from hookline.features.events.cli.listen import TOLERANCE_SECONDS, Verifier, overall

BODY = b'{"type":"track"}'
NOW = 1_795_158_000
OLD, NEW = "the-old-secret", "the-new-secret"
WHSEC, OTHER = new_standard_secret(), new_standard_secret()


def hex_by(secret: str) -> str:
    """The X-Signature by a secret."""
    return hmac.new(secret.encode(), BODY, hashlib.sha1).hexdigest()


def standard_headers(*secrets: str, seconds: int = NOW) -> dict[str, str]:
    """The headers of Standard Webhooks, signed with these secrets."""
    signatures = [StandardSigner(secret).sign(b"m-1", seconds, BODY).decode() for secret in secrets]
    return {"webhook-id": "m-1", "webhook-timestamp": str(seconds), "webhook-signature": " ".join(signatures)}


@pytest.mark.parametrize("known", [[OLD], [NEW], [OLD, NEW], [NEW, OLD]])
def test_in_the_overlap_either_secret_is_enough(known: list[str]) -> None:
    """With the old, the new or both secrets a request of the overlap is good."""
    headers = {"x-signature": hex_by(OLD), "x-signature-next": hex_by(NEW)}
    assert Verifier(known).verdicts(headers, BODY, NOW) == {"X-Signature": "valid"}


@pytest.mark.parametrize(
    ("headers", "verdict"),
    [
        ({"x-signature": hex_by(NEW)}, "invalid"),
        ({"x-signature": hex_by(OLD).upper()}, "invalid"),
        ({"x-signature": "é"}, "invalid"),
        ({}, "missing"),
    ],
)
def test_a_wrong_x_signature_is_told(headers: dict[str, str], verdict: str) -> None:
    """Another secret's digest, another spelling, and none are not good."""
    assert Verifier([OLD]).verdicts(headers, BODY, NOW) == {"X-Signature": verdict}


@pytest.mark.parametrize(
    ("headers", "verdict"),
    [
        (standard_headers(WHSEC), "valid"),
        (standard_headers(OTHER, WHSEC), "valid"),
        (standard_headers(OTHER), "invalid"),
        (standard_headers(WHSEC, seconds=NOW - TOLERANCE_SECONDS - 1), "invalid"),
        (standard_headers(WHSEC, seconds=NOW + TOLERANCE_SECONDS + 1), "invalid"),
        (standard_headers(WHSEC) | {"webhook-timestamp": "soon"}, "invalid"),
        (standard_headers(WHSEC) | {"webhook-timestamp": "9" * 5000}, "invalid"),
        (standard_headers(WHSEC) | {"webhook-id": "m-2"}, "invalid"),
        (standard_headers(WHSEC) | {"webhook-signature": ""}, "invalid"),
        ({}, "missing"),
    ],
)
def test_standard_webhooks_are_verified(headers: dict[str, str], verdict: str) -> None:
    """One good signature of the list is enough; id and time are part of what is signed, and old times are refused."""
    assert Verifier([WHSEC]).verdicts(headers, BODY, NOW) == {"webhook-signature": verdict}


def test_each_way_is_judged_and_the_worst_counts() -> None:
    """With both kinds of secrets both headers must be good."""
    verifier = Verifier([OLD, WHSEC])
    both = {"x-signature": hex_by(OLD), **standard_headers(WHSEC)}
    assert overall(verifier.verdicts(both, BODY, NOW)) == "valid"
    assert overall(verifier.verdicts({"x-signature": hex_by(OLD)}, BODY, NOW)) == "missing"
    assert overall(verifier.verdicts(both | {"x-signature": "0"}, BODY, NOW)) == "invalid"


def test_a_secret_that_is_none_is_refused() -> None:
    """A mistyped whsec_ secret is named at the start, not as a wrong signature later."""
    with pytest.raises(ValueError, match="base64"):
        Verifier([OLD, "whsec_???"])
