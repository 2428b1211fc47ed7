"""Make names of schemas, tables and columns from the names that people give to sources, events and properties.

The rule is the one of Segment's warehouses: words are split where capitals begin and at everything that is no ASCII
letter or digit, and joined with underscores in small letters. PostgreSQL's own limits come on top of it.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from sys import getsizeof

from hookline.remembered import ENTRY_BYTES

NAME_BYTES_MAX = 63
"""What PostgreSQL keeps of a name; it cuts longer ones, and two of them may then be one."""
HASH_DIGITS = 8
OTHER_COLUMN = "other_properties"
"""JSON of the properties that have no column."""

STANDARD_TABLES = frozenset({"tracks", "identifies", "users", "pages", "screens", "groups", "accounts", "aliases"})
SYSTEM_COLUMNS = frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"})
"""Every table of PostgreSQL has them already."""

_LOWER_BEGINNING = re.compile(r"(?:[a-z0-9]|_(?=[a-z0-9]))*")
_WORD = re.compile(r"[A-Z0-9]+[a-z0-9]*|[a-z0-9]+")
_EMPTY = re.compile(r"_*")


def snake_case(text: str) -> str:
    """Return a name in snake case, empty where no letter or digit of ASCII is in it.

    What begins in small letters stays as it is up to the first other character; a digit just before a capital goes to
    the word that the capital begins (``step2Done`` is ``step_2done``, ``Step2Done`` is ``step2_done``).
    """
    found = _LOWER_BEGINNING.match(text)
    end = found.end() if found is not None else 0
    if end == len(text):
        return text
    if end and text[end - 1].isdigit():
        end -= 1
    beginning = [text[:end]] if end else []
    return "_".join([*beginning, *(word.lower() for word in _WORD.findall(text, end))])


def schema_name(source: str, prefix: str = "") -> str:
    """Return the name of a source's schema."""
    name = _usable(prefix + _named(source, "source"))
    # PostgreSQL keeps pg_ for itself, and information_schema is there.
    return _fitting(f"_{name}" if name.startswith("pg_") or name == "information_schema" else name)


def table_name(event: str) -> str:
    """Return the name of an event's table; one of the tables that every source has is never meant."""
    name = _usable(_named(event, "event"))
    return _fitting(f"_{name}" if name in STANDARD_TABLES else name)


def column_name(path: str) -> str:
    """Return the name of a property's column; ``path`` has the names of objects that it is in before it."""
    name = _usable(_named(path, "property"))
    return _fitting(f"_{name}" if name in SYSTEM_COLUMNS or name == OTHER_COLUMN else name)


class ColumnNames(dict[str, str]):
    """The columns of one object's keys, each worked out once: ``names[key]``; ``inner`` has those of objects in it.

    Bounded by the bytes of all of them together: once they are too many, all are forgotten and worked out anew.
    """

    BYTES_MAX = 1024 * 1024
    KEY_BYTES_MAX = 1_024
    """The columns of longer keys are worked out each time."""
    INNER_BYTES = 400
    """What the names of one more object take at their emptiest."""

    __slots__ = ("_inner", "_outermost", "_path", "_reserved", "held_bytes")

    def __init__(self, path: str, reserved: frozenset[str] = frozenset(), outermost: ColumnNames | None = None) -> None:
        super().__init__()
        self._path = path
        self._reserved = reserved
        self._inner: dict[str, ColumnNames] = {}
        self._outermost = self if outermost is None else outermost
        self.held_bytes = 0
        """Of the outermost: what all of them hold."""

    def __missing__(self, key: str) -> str:
        """Return the column, empty for a key whose column is reserved for something else."""
        name = column_name(self._path + key)
        name = "" if name in self._reserved else name
        if self._outermost._has_room(getsizeof(key) + getsizeof(name)):
            self[key] = name
        return name

    def inner(self, key: str) -> ColumnNames:
        """Return the names of the keys of an object that is in this one."""
        found = self._inner.get(key)
        if found is None:
            found = ColumnNames(f"{self._path}{key}_", self._reserved, self._outermost)
            if self._outermost._has_room(getsizeof(key) + getsizeof(found._path), self.INNER_BYTES):
                self._inner[key] = found
        return found

    def _has_room(self, text_bytes: int, more_bytes: int = 0) -> bool:
        """Make room for an entry; return whether it is one to keep."""
        if text_bytes > self.KEY_BYTES_MAX:
            return False
        entry_bytes = ENTRY_BYTES + text_bytes + more_bytes
        if self.held_bytes + entry_bytes > self.BYTES_MAX:
            self.clear()
            self._inner.clear()
            self.held_bytes = 0
        self.held_bytes += entry_bytes
        return True


def _named(text: str, what: str) -> str:
    """Return the snake case, or where nothing is left of the text, a name made from all of it."""
    name = snake_case(text)
    return f"{what}_{_hash(text)}" if _EMPTY.fullmatch(name) else name


def _usable(name: str) -> str:
    return f"_{name}" if name[:1].isdigit() else name


def _fitting(name: str) -> str:
    """Cut a name that is too long; its end is made from all of it, so that two of them stay two."""
    if len(name) <= NAME_BYTES_MAX:
        return name
    return f"{name[: NAME_BYTES_MAX - HASH_DIGITS - 1]}_{_hash(name)}"


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_DIGITS // 2).hexdigest()
