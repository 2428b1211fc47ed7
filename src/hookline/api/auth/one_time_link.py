"""The link that opens the pages once without a token, for the person who just started Hookline.

The code in it is kept only as a digest; the link itself lies in ``run/one-time-link`` (mode 0600) until it is used
or too old, for the command that prints it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

VALID_SECONDS = 15 * 60.0
_CODE_BYTES = 32


def link_path(data_path: Path) -> Path:
    """Return where the link lies while it is good."""
    return data_path / "run" / "one-time-link"


def one_time_link(data_path: Path) -> str | None:
    """Return the link to open, None when there is none (not asked for, not ready yet, or used)."""
    try:
        return link_path(data_path).read_text().strip() or None
    except FileNotFoundError:
        return None


class OneTimeLink:
    """The single code in force, if any."""

    def __init__(self, data_path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = link_path(data_path)
        self._clock = clock
        self._digest: bytes | None = None
        self._made_at = 0.0
        self._path.unlink(missing_ok=True)

    def make(self, base_url: str) -> str:
        """Put a new code in force, write its link into the run folder and return it."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        link = f"{base_url.rstrip('/')}/open/{code}"
        self._digest, self._made_at = sha256(code.encode()).digest(), self._clock()
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        beside = self._path.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(link + "\n")
        beside.replace(self._path)
        return link

    def consume(self, code: str) -> bool:
        """Return whether this is the code in force; from then on it is not."""
        if self._digest is None or self._clock() - self._made_at > VALID_SECONDS:
            self.discard()
            return False
        if not compare_digest(sha256(code.encode("utf-8", "surrogatepass")).digest(), self._digest):
            return False
        self.discard()
        return True

    def close(self) -> None:
        """Leave no link behind that opens nothing."""
        self.discard()

    def discard(self) -> None:
        """Take the code out of force and its file away."""
        self._digest = None
        self._path.unlink(missing_ok=True)
