"""The people whose events are not stored, as collect asks for them: a set of hashes, and who was asked about lately."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.privacy.id_digest import IdDigests
from hookline.remembered import Remembered

REMEMBERED_BYTES_MAX = 4 * 1024 * 1024
"""Ids whose answer is kept, so that a busy user costs one look: some 20,000 of them."""
REMEMBERED_ID_BYTES_MAX = 1_024
"""A longer id, which nobody's is, is hashed each time."""


class Suppressed:
    """Answers for ids; never empty, because where nobody is suppressed nobody is asked about."""

    def __init__(self, digests: Iterable[bytes], of: IdDigests) -> None:
        self.digests = frozenset(digests)
        self._of = of
        self._answers = Remembered(self._look_up, REMEMBERED_BYTES_MAX, REMEMBERED_ID_BYTES_MAX)

    @classmethod
    def of(cls, digests: Iterable[bytes], key: bytes) -> Suppressed:
        """Those with these hashes, by the key they were made with."""
        return cls(digests, IdDigests(key))

    @property
    def key(self) -> bytes:
        """Return what the hashes were made with."""
        return self._of.key

    def __len__(self) -> int:
        return len(self.digests)

    def __contains__(self, id: str) -> bool:
        return self._answers[id]

    def _look_up(self, id: str) -> bool:
        return self._of.of(id) in self.digests
