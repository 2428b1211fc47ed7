"""Keep the accounts in ``control.db`` and their passwords, as argon2id hashes (RFC 9106). A new account has none; its
one-time link lets its owner choose one."""

from __future__ import annotations

import asyncio
import secrets
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from hookline.api.caller import Role, is_reserved, looks
from hookline.database.connect import Shared
from hookline.database.sqlite import IntegrityError

if TYPE_CHECKING:
    from argon2 import PasswordHasher


CHARACTERS_MIN = 12
CHARACTERS_MAX = 256
MEMORY_KIB = 19_456
ROUNDS = 3
"""More than the least that OWASP asks for (2 with this memory); the memory is what the control role can spare."""
WAITING_MAX = 20


class TooManyWaiting(Exception):
    """So many passwords wait to be checked that another one is not taken on."""


class Passwords:
    """Hashes and checks; who is not known costs as much time as who is."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Return the hash to store."""
        async with self._turn:
            return await asyncio.to_thread(_hasher().hash, password)

    def require_room(self, others_first: bool = False) -> None:
        """Raise TooManyWaiting rather than let the queue grow, or where others go first and somebody waits."""
        if self._waiting >= (1 if others_first else WAITING_MAX):
            raise TooManyWaiting

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether it is the password of this hash; with None the same work is done for nothing.

        Raise TooManyWaiting; what counts tries asks for room before it counts one.
        """
        self.require_room()
        self._waiting += 1
        try:
            async with self._turn:
                matched = await asyncio.to_thread(self._verify, password, stored)
        finally:
            self._waiting -= 1
        return matched and stored is not None

    def _verify(self, password: str, stored: str | None) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        if self._nobody is None:  # at the first check of all, whoever it is for
            self._nobody = _hasher().hash(secrets.token_urlsafe(32))
        try:
            return _hasher().verify(stored or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return False


def refusal_of(password: str, account: str) -> str | None:
    """Return why it cannot be a password for this account, None when it can."""
    if len(password) < CHARACTERS_MIN:
        return f"Use at least {CHARACTERS_MIN} characters; a few words in a row are easy to remember."
    if len(password) > CHARACTERS_MAX:
        return f"Use at most {CHARACTERS_MAX} characters."
    if password.casefold() == account.casefold() or len(set(password)) < 5:
        return "That is too easy to guess; use a few words in a row."
    return None


def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # here: only who signs in with an account pays for it

    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=1)


ACCOUNTS_MAX = 1_000
NAME_CHARACTERS_MAX = 200
INVITATION_MS = 72 * 3_600_000
_CODE_BYTES = 32
_COLUMNS = "id, name, role, password_hash IS NOT NULL, invite_until, created_at, last_seen_at, disabled_at"


class AccountError(Exception):
    """Accounts cannot be changed like that; ``code`` says why to programs."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Account(NamedTuple):
    """One person's account; times are milliseconds since the epoch. ``joined``: a password was chosen."""

    id: int
    name: str
    role: Role
    joined: bool
    invited_until: int | None
    created_at: int
    last_seen_at: int | None
    disabled_at: int | None


class Credentials(NamedTuple):
    """Hold what signing in is checked against; the hash is None for who may not sign in."""

    id: int
    password_hash: str | None


class Accounts:
    """Reads and writes the table; the names are compared without regard to case."""

    def __init__(self, database: Shared, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._database = database
        self._now_ms = now_ms

    def page(self, limit: int, after_id: int = 0) -> list[Account]:
        """At most ``limit`` accounts after one, in the order they were made."""
        query = f"SELECT {_COLUMNS} FROM accounts WHERE id > ? ORDER BY id LIMIT ?"
        return [_account(row) for row in self._database.rows(query, (after_id, limit))]

    def get(self, id: int) -> Account | None:
        """Return the account with this id."""
        row = self._database.row(f"SELECT {_COLUMNS} FROM accounts WHERE id = ?", (id,))
        return None if row is None else _account(row)

    def any(self) -> bool:
        """Return whether there is an account at all."""
        return self._database.row("SELECT 1 FROM accounts LIMIT 1") is not None

    def credentials(self, name: str) -> Credentials | None:
        """Return what signing in under this name is checked against, None when nobody is called so."""
        row = self._database.row(
            "SELECT id, CASE WHEN disabled_at IS NULL THEN password_hash END FROM accounts WHERE name_key = ?",
            (name_key(name),),
        )
        return None if row is None else Credentials(*row)

    def credentials_of(self, id: int) -> Credentials | None:
        """Return the same by id."""
        row = self._database.row("SELECT name FROM accounts WHERE id = ?", (id,))
        return None if row is None else self.credentials(row[0])

    def invite(self, name: str, role: Role) -> tuple[Account, str]:
        """Make an account, and the code of the link with which its owner joins; raise AccountError."""
        return self._insert(name, role, None)

    def create_first(self, name: str, password_hash: str) -> Account:
        """Make the first account, an owner's; raise AccountError when it is not the first."""
        return self._insert(name, "owner", password_hash)[0]

    def invite_again(self, id: int) -> str:
        """Return a new code for an account, also for who forgot the password; the last code opens nothing any more."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        with self._database.transaction() as execute:
            execute(
                "UPDATE accounts SET invite_digest = ?, invite_until = ? WHERE id = ?",
                (_digest(code), self._now_ms() + INVITATION_MS, id),
            )
        return code

    def invited(self, code: str) -> Account | None:
        """Whose code this is, None when it is nobody's or too old, or the account is disabled."""
        row = self._database.row(
            f"SELECT {_COLUMNS} FROM accounts WHERE invite_digest = ? AND invite_until > ? AND disabled_at IS NULL",
            (_digest(code), self._now_ms()),
        )
        return None if row is None else _account(row)

    def set_password(self, id: int, password_hash: str) -> None:
        """Put a password in force; an invitation that is still open is over."""
        with self._database.transaction() as execute:
            execute(
                "UPDATE accounts SET password_hash = ?, invite_digest = NULL, invite_until = NULL WHERE id = ?",
                (password_hash, id),
            )

    def change(self, id: int, role: Role, disabled: bool) -> Account:
        """Give an account a role and say whether it may sign in; raise AccountError."""
        with self._database.transaction() as execute, _owner_kept(execute):
            execute(
                "UPDATE accounts SET role = ?, disabled_at = CASE WHEN ? THEN coalesce(disabled_at, ?) END"
                " WHERE id = ?",
                (role, disabled, self._now_ms(), id),
            )
            (row,) = execute(f"SELECT {_COLUMNS} FROM accounts WHERE id = ?", (id,)).fetchall()
        return _account(row)

    def remove(self, id: int) -> None:
        """Take an account away; raise AccountError."""
        with self._database.transaction() as execute, _owner_kept(execute):
            execute("DELETE FROM accounts WHERE id = ?", (id,))

    def _insert(self, name: str, role: Role, password_hash: str | None) -> tuple[Account, str]:
        name = _usable(name)
        code = secrets.token_urlsafe(_CODE_BYTES)
        until = None if password_hash else self._now_ms() + INVITATION_MS
        digest = None if password_hash else _digest(code)
        try:
            with self._database.transaction() as execute:
                ((count,),) = execute("SELECT count(*) FROM accounts").fetchall()
                if password_hash and count:
                    raise AccountError("not_the_first", "Accounts already exist; an owner can invite more people.")
                if count >= ACCOUNTS_MAX:
                    raise AccountError("too_many", f"There can be at most {ACCOUNTS_MAX} accounts.")
                for (other,) in execute("SELECT name FROM accounts").fetchall():
                    if looks(other) == looks(name):
                        raise AccountError("already_exists", f"There is an account called {other!r} already.")
                (row,) = execute(
                    "INSERT INTO accounts (name, name_key, role, password_hash, invite_digest, invite_until,"
                    f" created_at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
                    (name, name_key(name), role, password_hash, digest, until, self._now_ms()),
                ).fetchall()
        except IntegrityError:
            raise AccountError("already_exists", f"There is an account called {name!r} already.") from None
        return _account(row), code


@contextmanager
def _owner_kept(execute: Callable[..., Any]) -> Iterator[None]:
    """Within a transaction: refuse to leave accounts behind without an owner who can sign in, where there was one."""
    owner = "role = 'owner' AND password_hash IS NOT NULL AND disabled_at IS NULL"
    query = f"SELECT count(*), count(*) FILTER (WHERE {owner}) FROM accounts"
    ((_, before),) = execute(query).fetchall()
    yield
    ((accounts, owners),) = execute(query).fetchall()
    if accounts and before and not owners:
        raise AccountError("last_owner", "This is the only owner who can sign in. Make another account an owner first.")


def _usable(name: str) -> str:
    name = unicodedata.normalize("NFC", name.strip())
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
        sentence = f"An account's name has 1 to {NAME_CHARACTERS_MAX} printable characters; an e-mail address is usual."
        raise AccountError("invalid_name", sentence)
    if is_reserved(name):
        sentence = f"{name!r} would look like a token, or like Hookline itself, in the audit log; choose another name."
        raise AccountError("invalid_name", sentence)
    return name


def name_key(name: str) -> str:
    """Return what accounts are told apart by."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _digest(code: str) -> bytes:
    return sha256(code.encode("utf-8", "surrogatepass")).digest()


def _account(row: tuple[Any, ...]) -> Account:
    id, name, role, joined, *times = row
    return Account(id, name, role, bool(joined), *times)
