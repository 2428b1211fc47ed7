"""Erase the Nth record that partition 0 keeps, while the service is down.

Runs as ``python bench/crash/erase_one.py JOURNAL_FOLDER N``.

No surface of the service erases yet (deletion requests come later), so the crash points of erasing are reached here.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader


async def main() -> None:
    """Open the journal as the collect role does and erase."""
    folder = Path(sys.argv[1])
    reader = LocalReader(folder)
    offset = reader.start(0) + int(sys.argv[2])
    reader.close()
    appender = LocalAppender(folder, retention_seconds=86_400, retention_bytes=1 << 40)
    assert appender.erase(0, [offset]) == 1
    await appender.close()


if __name__ == "__main__":
    asyncio.run(main())
