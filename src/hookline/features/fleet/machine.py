"""Which of the machines that share a database this data folder is: a number, made up once."""

from __future__ import annotations

import secrets
from pathlib import Path

from hookline.database.installation import LOCAL
from hookline.database.parts import held
from hookline.settings import Settings
from hookline.whole_file import write_whole

FILE = "machine"
ALONE = 1
"""Where nobody shares the database."""
_NUMBERS = range(2, 1 << 31)


def machine_of(settings: Settings) -> int:
    """Return the number; kept in the data folder, so that it stays over restarts and other names of the machine."""
    if settings.database.url == LOCAL:
        return ALONE
    path = settings.data_path / FILE
    try:
        return _read(path)
    except FileNotFoundError:
        with held(path.parent):
            if not path.exists():  # else made by another process of this folder meanwhile
                write_whole(path, b"%d\n" % secrets.choice(_NUMBERS))
        return _read(path)


def _read(path: Path) -> int:
    return int(path.read_text())
