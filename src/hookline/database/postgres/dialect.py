"""Speak SQLite's dialect to PostgreSQL: other marks for values, values there and back, and errors by the names the
rooms know.

Errors become those that SQLite's have (decision 0039). Whole numbers travel with 64 bits, sums are whole numbers, and
text may hold the character U+0000, which PostgreSQL refuses: it is written as two characters of the private use area,
and so is the one that they begin with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown, TextLoader

from hookline.database import sqlite
from hookline.database.sqlite import engine

STATEMENTS_MAX = 2_000
"""Texts are made anew for lists of values, so their number has no bound of its own."""

Kind = Literal["read", "write", "begin_read", "begin_write", "commit", "rollback"]

_KINDS: dict[str, Kind] = {
    "SELECT": "read",
    "WITH": "read",
    "VALUES": "read",
    "BEGIN": "begin_read",
    "BEGIN IMMEDIATE": "begin_write",
    "COMMIT": "commit",
    "ROLLBACK": "rollback",
}
# Quoted text first, so that nothing in it is taken for something else.
_PARTS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \?(\d*) | \bINDEXED\ BY\ \w+ | \bAS\ BLOB\b | \bIN\ \(\)""", re.VERBOSE
)
_WORDS = {"AS BLOB": "AS BYTEA", "IN ()": "IN (NULL)"}
_WORD = re.compile(r"\s*(BEGIN IMMEDIATE|\w+)")


class Statement(NamedTuple):
    """A statement's text for PostgreSQL, and what it does."""

    text: str
    kind: Kind


@lru_cache(STATEMENTS_MAX)
def translated(sql: str) -> Statement:
    """Return the statement as PostgreSQL takes it; what it does is told by its first word."""
    highest = 0

    def part(found: re.Match[str]) -> str:
        nonlocal highest
        text = found[0]
        if text[0] == "?":
            number = int(found[1]) if found[1] else highest + 1
            highest = max(highest, number)
            return f"${number}"
        if text.startswith("INDEXED"):  # which index to use is PostgreSQL's own choice
            return ""
        return _WORDS.get(text, text)

    text = _PARTS.sub(part, sql)
    word = _WORD.match(sql)
    return Statement(text, _KINDS.get(word[1], "write") if word else "write")


ESCAPE = "\ue000"
_ESCAPED = ESCAPE + "\ue001"
_NUL = ESCAPE + "\ue002"
_encode = msgspec.json.Encoder().encode


def escaped(text: str) -> str:
    """Return a text without U+0000; different texts stay different."""
    return text.replace(ESCAPE, _ESCAPED).replace("\0", _NUL)


def unescaped(text: str) -> str:
    """Return the text that was escaped."""
    return text.replace(_NUL, "\0").replace(_ESCAPED, ESCAPE)


class Document(str):
    """JSON whose texts are escaped already."""


def as_document(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Document:
    """Rows as the server's ``json_populate_recordset`` takes them, to the same values as by themselves."""
    keys = [name.strip('"') for name in columns]
    return Document(_encode([dict(zip(keys, map(_in_document, row), strict=True)) for row in rows]).decode())


def _in_document(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    return f"\\x{value.hex()}" if isinstance(value, bytes | bytearray | memoryview) else value


class _Text(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj) if "\0" in obj or ESCAPE in obj else obj)


class _FromText(TextLoader):
    def load(self, data: Buffer) -> str:
        text: str = super().load(data)  # type: ignore[assignment]  # bytes come of SQL_ASCII alone
        return unescaped(text) if ESCAPE in text else text


class _FromNumeric(Loader):
    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(str, _Text)
ADAPTERS.register_dumper(Document, StrDumperUnknown)
ADAPTERS.register_dumper(int, Int8Dumper)
for _name in ("text", "varchar"):
    ADAPTERS.register_loader(_name, _FromText)
ADAPTERS.register_loader("numeric", _FromNumeric)


# Of the codes of PostgreSQL's errors the first that fits. Those that the client itself raises have none: the connection
# broke, or none could be made. A table in a schema whose use is forbidden "does not exist".
_PASSING: tuple[tuple[tuple[str, ...], type[sqlite.DatabaseAway]], ...] = (
    (("08", "57P", "53300", "25P03"), sqlite.DatabaseAway),
    (("55P03", "40001", "40P01"), sqlite.DatabaseLocked),
    (("57014", "25P04"), sqlite.DatabaseSlow),
    (("53",), sqlite.DatabaseFull),
    (("25006",), sqlite.DatabaseReadOnly),
    (("42501", "28", "3D000", "3F000", "42P01"), sqlite.DatabaseForbidden),
    (("58",), sqlite.DatabaseFailing),
)
_NO_CODE = "08"
_DAMAGED = ("XX001", "XX002")

# A write through a connection that only reads is an internal error to PostgreSQL, and what is missing one of
# programming: SQLite calls both operational.
_AS: tuple[tuple[type[psycopg.Error], type[Exception]], ...] = (
    (psycopg.IntegrityError, engine.IntegrityError),
    (psycopg.OperationalError, engine.OperationalError),
    (psycopg.InternalError, engine.OperationalError),
    (psycopg.ProgrammingError, engine.OperationalError),
    (psycopg.DataError, engine.DataError),
)


@contextmanager
def translating() -> Iterator[None]:
    """Let what is raised inside be one of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise as_ours(error) from error


def as_ours(error: psycopg.Error) -> engine.Error:
    """Return the error of ours that means the same, with PostgreSQL's own sentence, never with its values."""
    message = error.diag.message_primary or " ".join(str(error).split())
    if isinstance(error, psycopg.errors.LockNotAvailable):
        message = f"database is locked: {message}"  # as SQLite says it
    code = error.sqlstate or (_NO_CODE if isinstance(error, psycopg.OperationalError) else "")
    for codes, ours in _PASSING:
        if code.startswith(codes):
            return ours(message)
    if code in _DAMAGED:
        return sqlite.DatabaseBroken(f"PostgreSQL says that its files are damaged ({message}): restore the database")
    for theirs, same in _AS:
        if isinstance(error, theirs):
            return same(message)  # type: ignore[return-value]
    return engine.DatabaseError(message)
