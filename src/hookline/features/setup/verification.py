"""Show how a receiver verifies what a destination's requests are signed with, in four languages.

Each takes the body's bytes and a look-up of headers, and reads the secret from the environment variable ``SECRET``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.model import AnySettings, SecretSetting
from hookline.connections.rotation import secret_of
from hookline.features.setup.snippets import Snippet

SHARED_NODE = """import { createHmac, timingSafeEqual } from "node:crypto";

// body: a Buffer with the request's bytes as they came, before any parser; headers: request.headers
export function isGenuine(body, headers) {
  const expected = createHmac("sha1", process.env.SECRET).update(body).digest();
  return ["x-signature", "x-signature-next"].some((name) => {
    const given = Buffer.from(headers[name] ?? "", "hex");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}"""

SHARED_PYTHON = """import hashlib
import hmac
import os


def is_genuine(body: bytes, headers) -> bool:
    \"\"\"body: the request's bytes as they came, before any parser.\"\"\"
    expected = hmac.new(os.environ["SECRET"].encode(), body, hashlib.sha1).hexdigest().encode()
    given = [headers.get(name, "").encode() for name in ("X-Signature", "X-Signature-Next")]
    return any(hmac.compare_digest(expected, each) for each in given)"""

SHARED_GO = """import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"os"
)

// body: the request's bytes as they came, before any parser; header: r.Header.Get
func isGenuine(body []byte, header func(string) string) bool {
	mac := hmac.New(sha1.New, []byte(os.Getenv("SECRET")))
	mac.Write(body)
	expected := mac.Sum(nil)
	for _, name := range []string{"X-Signature", "X-Signature-Next"} {
		if given, err := hex.DecodeString(header(name)); err == nil && hmac.Equal(expected, given) {
			return true
		}
	}
	return false
}"""

SHARED_PHP = """// $body: file_get_contents('php://input'), before any parser
function isGenuine(string $body): bool
{
    $expected = hash_hmac('sha1', $body, getenv('SECRET'));
    return hash_equals($expected, $_SERVER['HTTP_X_SIGNATURE'] ?? '')
        || hash_equals($expected, $_SERVER['HTTP_X_SIGNATURE_NEXT'] ?? '');
}"""

STANDARD_NODE = """import { createHmac, timingSafeEqual } from "node:crypto";

// body: a Buffer with the request's bytes as they came, before any parser; headers: request.headers
export function isGenuine(body, headers) {
  const [id, time] = [headers["webhook-id"] ?? "", headers["webhook-timestamp"] ?? ""];
  if (!/^\\d+$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const key = Buffer.from(process.env.SECRET.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  return (headers["webhook-signature"] ?? "").split(" ").some((each) => {
    const given = Buffer.from(each.startsWith("v1,") ? each.slice(3) : "", "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}"""

STANDARD_PYTHON = """import base64
import hashlib
import hmac
import os
import time


def is_genuine(body: bytes, headers) -> bool:
    \"\"\"body: the request's bytes as they came, before any parser.\"\"\"
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    id, sent_at, signatures = (headers.get(name, "") for name in names)
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > 300:
        return False
    key = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
    content = f"{id}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
    return any(hmac.compare_digest(expected, each.encode()) for each in signatures.split(" "))"""

STANDARD_GO = """import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// body: the request's bytes as they came, before any parser; header: r.Header.Get
func isGenuine(body []byte, header func(string) string) bool {
	sentAt, err := strconv.ParseInt(header("webhook-timestamp"), 10, 64)
	if err != nil || math.Abs(float64(time.Now().Unix()-sentAt)) > 300 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("SECRET"), "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", header("webhook-id"), sentAt)
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, given := range strings.Split(header("webhook-signature"), " ") {
		if hmac.Equal([]byte(expected), []byte(given)) {
			return true
		}
	}
	return false
}"""

STANDARD_PHP = """// $body: file_get_contents('php://input'), before any parser
function isGenuine(string $body): bool
{
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    $sentAt = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($sentAt) || abs(time() - (int) $sentAt) > 300) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', getenv('SECRET')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sentAt.$body", $key, true));
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}"""


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
        _snippets(SHARED_NODE, SHARED_PYTHON, SHARED_GO, SHARED_PHP),
    ),
    "standardWebhooks": Verification(
        "standard",
        "Standard Webhooks",
        "webhook-signature",
        "v1, and the base64 HMAC-SHA256 of webhook-id, webhook-timestamp and the body's bytes with full stops between"
        " them. Refuse requests that are more than five minutes old.",
        _snippets(
            STANDARD_NODE,
            STANDARD_PYTHON,
            STANDARD_GO,
            STANDARD_PHP,
        ),
    ),
}


def verifications_of(settings: AnySettings) -> list[Verification]:
    """Return the ways that a destination signs in."""
    return [way for setting, way in WAYS.items() if secret_of(settings, setting) is not None]
