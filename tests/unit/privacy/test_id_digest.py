"""The keyed hash: one key per installation, kept private, never made up a second time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database import home
from hookline.database.open import ensure
from hookline.database.sqlite import connect
from hookline.privacy.id_digest import FILE_NAME, PrivacyKeyError, load, read


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The second start, and a reading role, hash as the first did; only the owner may read the key."""
    first = load(tmp_path).of("u1")
    assert load(tmp_path).of("u1") == read(tmp_path).of("u1") == first
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", FILE_NAME]


def test_what_a_folder_begins_with_is_made_without_hard_links(tmp_path: Path) -> None:
    """As FAT, and many that containers and networks mount, are."""
    refuses = ["strace", "-f", "-o", "/dev/null", "-e", "inject=link,linkat:error=EPERM"]
    program = """if True:
        import msgspec, pathlib, sys
        from hookline.api.auth import admin_token
        from hookline.features.fleet import service
        from hookline.privacy import id_digest
        from hookline.settings import load
        settings, _ = load(None, flags={"data_dir": sys.argv[1], "database.url": "postgresql://nowhere/"})
        id_digest.load(settings.data_path), admin_token.load(settings), service.machine_of(settings)
    """
    subprocess.run([*refuses, sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60, cwd=tmp_path)
    assert {FILE_NAME, "admin-token", "machine"} <= {path.name for path in tmp_path.iterdir()}


def test_a_key_that_is_gone_is_missed(tmp_path: Path) -> None:
    """A new one would recognise nobody on the list; it is the same in a folder that an older version has left."""
    load(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(PrivacyKeyError, match="hookline renew privacy-key"):
        load(tmp_path)
    ensure(tmp_path / "privacy.db", "privacy")
    with closing(connect(tmp_path / "privacy.db")) as database:
        database.execute("INSERT INTO suppressions (digest, at, author) VALUES (x'00', 1, 'me')")
    (tmp_path / "parts").unlink()
    with pytest.raises(PrivacyKeyError, match="is missing"):
        load(tmp_path)


def test_a_key_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    """One digit of another value is a key like any other, and recognises nobody; renewed, a new one is taken."""
    load(tmp_path)
    path = tmp_path / FILE_NAME
    content = path.read_text()
    path.write_text(("1" if content[0] != "1" else "2") + content[1:])
    for use in (load, read):
        with pytest.raises(PrivacyKeyError, match=r"is not the key that this data folder had.*hookline renew"):
            use(tmp_path)
    path.write_text(content)
    load(tmp_path)
    path.unlink()
    home.forget(tmp_path, FILE_NAME)
    assert load(tmp_path).key != bytes.fromhex(content)


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
    with pytest.raises(PrivacyKeyError, match="snapshot"):
        load(tmp_path)
