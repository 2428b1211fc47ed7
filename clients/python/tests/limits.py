"""What a system has no more of, for tests: room on the disk, and threads."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Refuse what would make a file larger; the part that fits is still written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Refuse every new thread of this process, as a system does that has none to give."""

    def refuse(thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield
