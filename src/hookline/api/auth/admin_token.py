"""Keep the admin token, from the settings or made up once, and the link that opens the pages once without it.

Only digests are held, of the token and of the code in the link; what is presented is compared in constant time. The
link itself lies in ``run/one-time-link`` (mode 0600) until it is used
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

from hookline.database.home import held
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

FILE_NAME = "admin-token"
PREFIX = "hk_admin_"
TOKEN_CHARACTERS_GOOD = 16
"""A configured token shorter than this is taken, with a warning: whoever can reach the port may guess it."""
TOKEN_CHARACTERS_MAX = 512
_TOKEN_BYTES = 32
_MARK_BYTES = 8


class AdminTokenError(ValueError):
    """The token that is configured or stored cannot be used; the message says what to do."""

    code = "invalid_admin_token"


class AdminToken:
    """Answers whether a presented token is the right one."""

    def __init__(self, token: str) -> None:
        if not 0 < len(token) <= TOKEN_CHARACTERS_MAX or not (token.isascii() and token.isprintable()):
            raise AdminTokenError(
                f"the admin token must have at most {TOKEN_CHARACTERS_MAX} ASCII characters, all of them printable; "
                "set control.admin_token to another one, or leave it out to have one generated"
            )
        if len(token) < TOKEN_CHARACTERS_GOOD:
            logger().warning("admin_token_short", next_step=f"use {TOKEN_CHARACTERS_GOOD} characters or more")
        self._digest = sha256(token.encode()).digest()

    @property
    def mark(self) -> bytes:
        """Return what tells that it is still the same token, and no more."""
        return sha256(b"mark" + self._digest).digest()[:_MARK_BYTES]

    def matches(self, presented: str) -> bool:
        """Return whether this is the token; takes the same time whatever is presented."""
        return compare_digest(sha256(presented.encode("utf-8", "surrogatepass")).digest(), self._digest)


def load(settings: Settings) -> AdminToken:
    """Return the token of the settings, else that of the data folder, made up at the first start."""
    if settings.control.admin_token:
        # A line end is no part of it: many ways of giving a secret to a process add one, and no request sends it.
        return AdminToken(settings.control.admin_token.strip())
    path = settings.data_path / FILE_NAME
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        return AdminToken(_make(path))
    if len(token) < TOKEN_CHARACTERS_GOOD:
        raise AdminTokenError(f"{path} holds no usable token; delete it, and the next start creates a new one")
    path.chmod(0o600)
    return AdminToken(token)


def _make(path: Path) -> str:
    token = PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    with held(path.parent):  # two starts agree on one
        if path.exists():
            return path.read_text().strip()
        write_whole(path, f"{token}\n".encode())
    return token


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
