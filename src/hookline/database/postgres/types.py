"""Columns as PostgreSQL is to have them, so that they order what they hold as SQLite does: imported by migrations."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text
from sqlalchemy.ext.compiler import compiles


@compiles(Text, "postgresql")
def _text(type_: Text, compiler: Any, **options: Any) -> str:
    """Text is compared and ordered by its bytes, whatever the database's language is."""
    return 'TEXT COLLATE "C"'
