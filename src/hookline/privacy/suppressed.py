"""The people whose events are not stored, as collect asks for them: a set of hashes, and who was asked about lately."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.privacy.id_digest import IdDigests

REMEMBERED_IDS_MAX = 65_536
"""Ids whose answer is kept, so that a busy user costs one look; then all are forgotten and asked anew."""


class Suppressed:
    """Answers for ids; never empty, because where nobody is suppressed nobody is asked about."""

    def __init__(self, digests: Iterable[bytes], of: IdDigests) -> None:
        self.digests = frozenset(digests)
        self._of = of
        self._answers: dict[str, bool] = {}

    @classmethod
    def of(cls, digests: Iterable[bytes], key: bytes) -> Suppressed:
        """Those with these hashes, by the key they were made with."""
        return cls(digests, IdDigests(key))

    @property
    def key(self) -> bytes:
        """What the hashes were made with."""
        return self._of.key

    def __len__(self) -> int:
        return len(self.digests)

    def __contains__(self, id: str) -> bool:
        known = self._answers.get(id)
        if known is None:
            if len(self._answers) >= REMEMBERED_IDS_MAX:
                self._answers.clear()
            known = self._answers[id] = self._of.of(id) in self.digests
        return known
