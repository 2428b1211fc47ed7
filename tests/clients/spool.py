"""Look into a spool while clients use it."""

from __future__ import annotations

import os
from pathlib import Path


def segments(spool: Path) -> list[str]:
    """Return the names of the files with events; boxes may come and go meanwhile, which ``rglob`` does not bear."""
    return [name for _, _, names in os.walk(spool) for name in names if name.endswith(".log")]
