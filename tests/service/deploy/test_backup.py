"""A backup of the data folder by the commands of docs/how-to/run-in-production.md, and what a restored one knows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.docs.pages import section
from tests.service.harness import Hookline, Receiver, free_port, webhook

QUICK = {"deliver.retry_max": "1s"}
"""So that a receiver that is back is soon noticed."""


def documented(archive: Path, folder: Path) -> list[list[str]]:
    """The commands that make and unpack a backup, with the paths of this test."""
    text = section("how-to/run-in-production.md", "Back up and restore")
    text = text.partition("With a container")[0].replace(" -o hookline -g hookline", "")  # who runs the test
    lines = re.findall(r"^ *((?:install|tar|mv) .*)$", text, re.MULTILINE)
    data, kept = "/var/lib/hookline", "/var/backups/hookline.tar.gz"
    paths = {data: str(folder), f"{data}.old": f"{folder}.old", kept: str(archive)}
    return [[paths.get(word, word) for word in shlex.split(line)] for line in lines]


def test_a_backup_goes_on_in_another_folder(tmp_path: Path) -> None:
    """What was delivered is not sent again, what waited is sent; token, connections and statuses are as before. Nobody
    else may read the archive."""
    away, archive = free_port(), tmp_path / "backup.tar.gz"
    with Receiver() as receiver:
        destinations = [webhook("well", receiver.url()), webhook("away", f"http://127.0.0.1:{away}/")]
        first = Hookline(tmp_path / "first", destinations, settings=QUICK).start()
        sent = [first.track() for _ in range(20)]
        for message_id in sent:
            first.wait_status(message_id, "well", "delivered")
        token = first.admin_token
        first.stop()
        for each in documented(archive, first.data)[:2]:
            subprocess.run(each, check=True, timeout=60)
        assert archive.stat().st_mode & 0o777 == 0o600
        shutil.rmtree(first.folder)

        second = Hookline(tmp_path / "second", destinations, settings=QUICK)
        second.data.mkdir(parents=True, mode=0o700)
        for each in documented(archive, second.data)[2:]:
            subprocess.run(each, check=True, timeout=60)
        with Receiver(port=away) as back, second:
            for message_id in sent:
                second.wait_status(message_id, "away", "delivered")
                assert second.status_at(message_id, "well")["status"] == "delivered"
            assert second.admin_token == token
            assert sorted(request.message_id for request in back.requests) == sorted(sent)
            assert len(receiver.requests) == len(sent)
