"""How values travel to PostgreSQL and back: as they would to and from SQLite.

Whole numbers travel with 64 bits, sums are whole numbers, and text may hold the character U+0000, which PostgreSQL
refuses: it is written as two characters of the private use area, and so is the one that they begin with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown, TextLoader

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
