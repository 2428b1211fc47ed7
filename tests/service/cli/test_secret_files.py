"""What the real service leaves of secrets: in no file, in no image of its memory, and for nobody else to read."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path

from tests.service.harness import Hookline, Receiver, webhook

NewHookline = Callable[..., Hookline]
TOKEN = "hk_admin_given-by-the-environment"
SECRET = "the-secret-behind-a-reference"
KEPT = {"admin-token", "privacy-key"}
"""Made up by Hookline itself, and needed after the next start."""


def holding(folder: Path, *secrets: str) -> list[str]:
    """The files below a folder in which one of the secrets stands."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]


def test_secrets_from_outside_are_in_no_file(receiver: Receiver, new_hookline: NewHookline) -> None:
    """While it runs, after a stop and after a kill: neither the admin token nor what a reference leads to."""
    crm = webhook("crm", receiver.url(), headers={"Authorization": "env:HOOKLINE_SECRET_CRM"})
    environment = {"HOOKLINE_CONTROL_ADMIN_TOKEN": TOKEN, "HOOKLINE_SECRET_CRM": SECRET}
    hookline = new_hookline(crm, environment=environment)
    for end in (hookline.stop, hookline.kill9):
        hookline.start()
        (sent,) = receiver.wait_for(hookline.track())
        assert sent.headers["authorization"] == SECRET
        assert hookline.api("GET", "sources").status == 200
        assert holding(hookline.data, TOKEN, SECRET) == []
        end()
        assert holding(hookline.data, TOKEN, SECRET) == []


def test_everything_is_for_its_owner_alone(receiver: Receiver, new_hookline: NewHookline) -> None:
    """No file, folder or socket below the data folder has a bit for others, whatever the umask of the caller was."""
    with new_hookline(webhook("crm", receiver.url(), headers={"Authorization": "Bearer kept"})) as hookline:
        receiver.wait_for(hookline.track())
        found = [hookline.data, *hookline.data.rglob("*")]
        assert [str(path) for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077] == []
        assert {path.name for path in found} >= KEPT


def test_no_role_dumps_core(new_hookline: NewHookline) -> None:
    """Supervisor and roles run with a limit that keeps the kernel from writing or piping an image of their memory."""
    with new_hookline() as hookline:
        assert hookline.process is not None
        for pid in (hookline.process.pid, *(hookline.role(name) for name in ("collect", "deliver", "control"))):
            limit = re.search(r"^Max core file size +(\d+) +(\d+) ", Path(f"/proc/{pid}/limits").read_text(), re.M)
            assert limit is not None, "unlimited"
            assert max(int(limit[1]), int(limit[2])) <= 1
