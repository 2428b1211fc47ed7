"""The admin token: from the settings, else made up once and kept in the data folder.

Only a digest of it is held; what is presented is compared in constant time.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from hookline.database.parts import held
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
        if not 0 < len(token) <= TOKEN_CHARACTERS_MAX or not token.isascii():
            raise AdminTokenError(
                f"the admin token must have at most {TOKEN_CHARACTERS_MAX} ASCII characters; "
                "set control.admin_token to another one, or leave it out to have one made up"
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
        return AdminToken(settings.control.admin_token)
    path = settings.data_path / FILE_NAME
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        return AdminToken(_make(path))
    if len(token) < TOKEN_CHARACTERS_GOOD:
        raise AdminTokenError(f"{path} holds no usable token; delete it and a new one is made up at the next start")
    path.chmod(0o600)
    return AdminToken(token)


def _make(path: Path) -> str:
    token = PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    with held(path.parent):  # two starts agree on one
        if path.exists():
            return path.read_text().strip()
        write_whole(path, f"{token}\n".encode())
    return token
