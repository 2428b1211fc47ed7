"""The lines for a backup in docs/explanation/postgresql.md, run as they stand, but for systemd and the folders."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.docs.pages import DOCS
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, webhook

PAGE = DOCS / "explanation" / "postgresql.md"


def test_a_backup_brings_back_what_was_there(
    on_postgres: Callable[..., Hookline], receiver: Receiver, server: PostgresServer, database_url: str, tmp_path: Path
) -> None:
    """Folder and database, into empty ones, the database at another address; what came after the backup is gone."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    keep, restore = (block for block in blocks if "systemctl stop hookline" in block)
    hookline = on_postgres(webhook("crm", receiver.url()))

    def run(block: str, url: str) -> None:
        lines = re.sub(r"^(systemctl|URL=).*\n", "", block, flags=re.MULTILINE)
        lines = lines.replace("/var/lib/hookline", str(hookline.data)).replace("/var/backups", str(tmp_path))
        lines = lines.replace(" -o hookline -g hookline", "")
        assert {line.split()[0] for line in lines.splitlines()} <= {"install", "tar", "mv", "pg_dump", "pg_restore"}
        subprocess.run(["sh", "-ec", f"URL='{url}'\n{lines}"], check=True, timeout=120)

    with hookline:
        kept = hookline.track()
        hookline.wait_status(kept, "crm", "delivered")
    run(keep, database_url)
    assert {(tmp_path / f"hookline.{each}").stat().st_mode & 0o777 for each in ("tar.gz", "dump")} == {0o600}
    with hookline:
        hookline.wait_status(hookline.track(message_id="later"), "crm", "delivered")
    with server.database() as other:
        run(restore, other)
        hookline.settings["database.url"] = other
        with hookline:
            hookline.wait_status(kept, "crm", "delivered")
            assert hookline.api("GET", "events/later").status == 404
            hookline.wait_status(hookline.track(), "crm", "delivered")
