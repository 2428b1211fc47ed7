"""Files that are gone from a data folder that had them: missed, never made anew in silence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, wait_until, webhook

PARTS = ["control.db", "deliver.db", "privacy.db", "privacy-key"]


def hookline_command(hookline: Hookline, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the installation's folder."""
    command = [
        sys.executable,
        "-m",
        "hookline.cli.main",
        *arguments,
        "--config",
        str(hookline.folder / "hookline.yaml"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_missing_part_is_missed(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Whichever it is, the start is refused by name, doctor says so while stopped, and put back all is as before."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        receiver.wait_for(hookline.track())
    for part in PARTS:
        moved = [path.rename(path.with_name("away-" + path.name)) for path in hookline.data.glob(part + "*")]
        assert hookline.launch().wait(60) == 2
        assert f"{part} is missing" in hookline.log
        assert f"hookline renew {part}" in hookline.log
        if part == PARTS[0]:
            assert f"{part} is missing" in hookline_command(hookline, "doctor").stdout
        for path in moved:
            path.rename(path.with_name(path.name.removeprefix("away-")))
    assert "Traceback" not in hookline.log
    with hookline:
        receiver.wait_for(hookline.track())


def test_a_part_is_made_anew_by_a_command_that_says_what_it_costs(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Without --yes it changes nothing; with it the next start begins with an empty one."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        assert hookline.api("POST", "deletion-requests", {"userId": "u9", "action": "suppress"}).status == 201
    for path in hookline.data.glob("privacy.db*"):
        path.unlink()
    asked = hookline_command(hookline, "renew", "privacy.db")
    assert asked.returncode == 1
    assert "nobody is suppressed any more" in asked.stdout
    assert hookline.launch().wait(60) == 2
    assert hookline_command(hookline, "renew", "privacy.db", "--yes").returncode == 0
    with hookline:
        receiver.wait_for(hookline.track())
        assert hookline_command(hookline, "renew", "privacy.db", "--yes").returncode == 1


def test_a_folder_of_an_older_version_gets_its_note_at_the_first_start(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Nothing is refused for want of the note, and what is there is missed from then on."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        receiver.wait_for(hookline.track())
    (hookline.data / "parts").unlink()
    with hookline:
        receiver.wait_for(hookline.track())
        wait_until(lambda: set(PARTS) <= set((hookline.data / "parts").read_text().split()))
