"""A secret as people write it: the text itself or a reference to it, and what may be seen of it.

A reference is ``env:HOOKLINE_SECRET_X`` or ``file:NAME`` under ``secrets.dir``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

SECRET_BYTES_MAX = 4_096
MASK = "…"
KEEP = "keep"
"""Written in place of a secret: leave the stored one as it is."""
_SHOWN_CHARS = 4
_SHOWN_FROM_CHARS = 12
_ENVIRONMENT = re.compile(r"env:HOOKLINE_SECRET_[A-Za-z0-9_]{1,100}")
_FILE = re.compile(r"file:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")


class SecretMissing(Exception):
    """A reference names something that is not there or not usable; the message says what to do."""

    code = "secret_missing"


def is_reference(value: str) -> bool:
    """Return whether the value names a secret instead of being one."""
    return value.startswith(("env:", "file:"))


def check_secret(value: str) -> None:
    """Raise ValueError, saying what to write instead, for a value that can be neither a secret nor a reference."""
    if not value:
        raise ValueError("the secret is empty; write one, or leave the key out")
    if len(value.encode("utf-8", "surrogatepass")) > SECRET_BYTES_MAX:
        raise ValueError(f"the secret is longer than {SECRET_BYTES_MAX} bytes; use a shorter one")
    if value.startswith("env:") and not _ENVIRONMENT.fullmatch(value):
        raise ValueError("only environment variables named HOOKLINE_SECRET_… may be read: env:HOOKLINE_SECRET_CRM")
    if value.startswith("file:") and not _FILE.fullmatch(value):
        raise ValueError("write the plain name of a file in secrets.dir, without a path: file:crm-secret")


def resolve_in(
    value: str,
    secrets_dir: str | None,
    environment: Mapping[str, str] | None = None,
    bytes_max: int = SECRET_BYTES_MAX,
) -> str:
    """Return the secret that ``value`` is or refers to, a file being one of ``secrets_dir`` of at most ``bytes_max``;
    raise SecretMissing when the reference leads nowhere."""
    if not is_reference(value):
        return value
    try:
        check_secret(value)
    except ValueError as error:
        raise SecretMissing(str(error)) from None
    kind, _, name = value.partition(":")
    if kind == "env":
        secret = (os.environ if environment is None else environment).get(name, "")
        where = f"the environment variable {name}"
    else:
        secret = _read_file(name, secrets_dir, bytes_max)
        where = f"the file {name} in secrets.dir"
    if not secret:
        raise SecretMissing(f"{where} is not set or empty; put the secret there and start Hookline again")
    return secret


def stands_for_stored(value: str) -> bool:
    """Return whether a value is ``keep`` or a mask."""
    return value == KEEP or value.startswith(MASK)


def mask(secret: str) -> str:
    """Return what people may see of a secret: the last four characters of a long one; a reference is no secret."""
    if is_reference(secret):
        return secret
    return MASK + (secret[-_SHOWN_CHARS:] if len(secret) >= _SHOWN_FROM_CHARS else "")


def _read_file(name: str, secrets_dir: str | None, bytes_max: int) -> str:
    if secrets_dir is None:
        raise SecretMissing(f"file:{name} needs the setting secrets.dir; set it to the folder that holds the secrets")
    folder = Path(secrets_dir).expanduser().resolve()
    try:
        # Links inside the folder are how orchestrators mount secrets; links out of it are not followed.
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder):
            raise SecretMissing(f"file:{name} leads out of secrets.dir; put the secret itself into that folder")
        content = _read_plain_file(path, bytes_max)
    except OSError as error:
        raise SecretMissing(f"cannot read file:{name} in {folder}: {error.strerror}") from None
    except RuntimeError:  # how pathlib reports a ring of links
        raise SecretMissing(f"file:{name} in {folder} is a ring of links; put the secret itself there") from None
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    if len(content) > bytes_max:
        raise SecretMissing(f"file:{name} is longer than {bytes_max} bytes; it must hold the secret alone")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise SecretMissing(f"file:{name} is not UTF-8 text; write the secret as text") from None


def _read_plain_file(path: Path, bytes_max: int) -> bytes:
    # Not blocking: a pipe put there must not hang the reader.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        return os.read(descriptor, bytes_max + 3)
    finally:
        os.close(descriptor)
