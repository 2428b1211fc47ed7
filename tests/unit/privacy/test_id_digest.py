"""The keyed hash: one key per installation, kept private, never made up a second time."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hookline.privacy.id_digest import FILE_NAME, PrivacyKeyError, load, read


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The second start, and a reading role, hash as the first did; only the owner may read the key."""
    first = load(tmp_path).of("u1")
    assert load(tmp_path).of("u1") == read(tmp_path).of("u1") == first
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_the_hash_is_blake2b_with_that_key(tmp_path: Path) -> None:
    """Whoever has the key can say whether an id is meant, without Hookline."""
    digests = load(tmp_path)
    key = bytes.fromhex((tmp_path / FILE_NAME).read_text())
    assert digests.of("Zoë") == hashlib.blake2b("Zoë".encode(), key=key, digest_size=32).digest()


def test_another_installation_hashes_otherwise(tmp_path: Path) -> None:
    """Hashes of two installations cannot be compared."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert load(tmp_path / "a").of("u1") != load(tmp_path / "b").of("u1")


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    """A key that is no key is never replaced: the list would say nothing any more."""
    (tmp_path / FILE_NAME).write_text("not a key\n")
    with pytest.raises(PrivacyKeyError, match="backup"):
        load(tmp_path)
