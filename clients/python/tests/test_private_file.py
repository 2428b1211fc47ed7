"""Files without a name: in memory, or unlinked with mode 0600 where the system has no such."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from hookline_client.consumers.private_file import private_file
from limits import file_size_limit
from open_files import open_files


@pytest.mark.parametrize("in_memory", [True, False])
def test_another_process_of_ours_reads_it_whole(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened through its descriptor it has its content, and there is no link to it."""
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    content = b"x" * 300_000
    descriptor = private_file(content)
    with open(f"/dev/fd/{descriptor}", "rb") as again:
        assert again.read() == content
    status = os.fstat(descriptor)
    os.close(descriptor)
    assert status.st_nlink == 0
    assert in_memory or stat.S_IMODE(status.st_mode) == 0o600


@pytest.mark.parametrize("in_memory", [True, False])
def test_without_room_it_leaves_nothing_open(in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written whole is closed again, and the caller hears of it."""
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with file_size_limit(4096), pytest.raises(OSError, match="too large"):
        private_file(b"x" * 10_000)
    assert open_files("/memfd:hookline" if in_memory else tmp_path) == []
