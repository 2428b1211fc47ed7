"""The answers to requests with an ``Idempotency-Key``, in ``control.db`` for a day.

An answer may hold a secret that is shown this once. So it is sealed with the caller's own key, of which only a digest
is stored: the file alone does not give it away.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Literal

import msgspec

from hookline.database.shared import Shared

KEPT_MS = 24 * 3_600_000
KEPT_ANSWERS_MAX = 10_000
ANSWER_BYTES_MAX = 1_048_576
"""A larger answer is not kept: only one of a whole file is, and applying a file again changes nothing."""
_NONCE_BYTES = 12


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True):
    """One answer as it was sent."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


State = Literal["new", "running", "lost", "other_request"]
"""What a key is found to be: not used yet; of a request that is being served; of one whose end nobody saw, because
Hookline ended first; of a request with another body."""


class KeptAnswers:
    """Takes keys, keeps their answers and finds them again."""

    def __init__(self, database: Shared, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._database = database
        self._now_ms = now_ms
        self._running: set[bytes] = set()

    def take(self, key: bytes, request: bytes) -> KeptAnswer | State:
        """Begin a request, or say what became of it when it was sent before; ``request`` tells requests apart."""
        digest, now = sha256(b"digest" + key).digest(), self._now_ms()
        with self._database.transaction() as execute:
            execute("DELETE FROM idempotency_keys WHERE at < ?", (now - KEPT_MS,))
            row = execute("SELECT request, answer FROM idempotency_keys WHERE digest = ?", (digest,)).fetchone()
            if row is None:
                execute(
                    "DELETE FROM idempotency_keys WHERE digest IN"
                    " (SELECT digest FROM idempotency_keys ORDER BY at DESC LIMIT ?1 OFFSET ?1)",
                    (KEPT_ANSWERS_MAX - 1,),
                )
                execute("INSERT INTO idempotency_keys (digest, at, request) VALUES (?, ?, ?)", (digest, now, request))
                self._running.add(digest)
                return "new"
        if row[0] != request:
            return "other_request"
        if row[1] is not None:
            return _opened(key, row[1])
        return "running" if digest in self._running else "lost"

    def keep(self, key: bytes, answer: KeptAnswer) -> None:
        """The request was done; whoever sends it again gets this answer."""
        if len(answer.body) > ANSWER_BYTES_MAX:
            self.give_back(key)
            return
        digest = sha256(b"digest" + key).digest()
        with self._database.transaction() as execute:
            execute("UPDATE idempotency_keys SET answer = ? WHERE digest = ?", (_sealed(key, answer), digest))
        self._running.discard(digest)

    def give_back(self, key: bytes) -> None:
        """The request changed nothing; it may be sent again."""
        digest = sha256(b"digest" + key).digest()
        with self._database.transaction() as execute:
            execute("DELETE FROM idempotency_keys WHERE digest = ?", (digest,))
        self._running.discard(digest)


def _sealed(key: bytes, answer: KeptAnswer) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # here: only who sends keys pays for it

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(sha256(b"seal" + key).digest()).encrypt(nonce, msgspec.msgpack.encode(answer), None)


def _opened(key: bytes, sealed: bytes) -> KeptAnswer:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    text = AESGCM(sha256(b"seal" + key).digest()).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    return msgspec.msgpack.decode(text, type=KeptAnswer)
