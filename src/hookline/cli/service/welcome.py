"""What ``hookline up`` prints in a terminal once the service is ready: the page's link and the first lines to paste.

Runs as ``python -m hookline.cli.service.welcome FOLDER``, a short-lived child of the supervisor. With ``--quickstart``
it also creates a first source where there is none.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from hookline.api.auth.admin_token import VALID_SECONDS, one_time_link
from hookline.cli.admin_api import AdminApi, CommandFailed, exchange, url_of
from hookline.cli.launch import LAUNCH_FILE, command_line, read
from hookline.cli.target import printable
from hookline.settings import Settings

READY_WAIT_SECONDS = 60.0
POLL_SECONDS = 0.05

FIRST_SOURCE = {"id": "website", "name": "Website", "type": "web", "enabled": True}


def welcome(folder: Path) -> str:
    """Wait for the service to be ready, create the first source if asked to, and return the text to print."""
    launch = read(folder / "run" / LAUNCH_FILE)
    settings = launch.settings
    collect, control = url_of(settings.collect.listen), url_of(settings.control.listen)
    for url in (collect, control):
        _wait_until_ready(url)
    admin = AdminApi(control, settings.control.admin_token or _own_token(folder, control))
    sources = admin.sources()
    if not sources and launch.quickstart:
        sources = [_first_source(admin)]
    link = one_time_link(folder)
    return text_of(
        Page(link or settings.control.public_url or control, bool(link), not admin.every("/users")),
        settings.collect.public_url or collect,
        [source for source in sources if source["enabled"] and source["writeKeys"]],
        settings,
        launch.quickstart,
    )


def _own_token(folder: Path, control: str) -> str:
    try:
        return (folder / "admin-token").read_text().strip()
    except FileNotFoundError:  # this control, which makes it as it starts, is not the one that is ready
        raise CommandFailed(f"{control} is another program's; see the other lines") from None


class Page(NamedTuple):
    """Say where the pages are: a link that works once, or only their address; ``is_new`` while nobody has an
    account."""

    href: str
    once: bool
    is_new: bool


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + READY_WAIT_SECONDS
    while True:
        try:
            status, _, _ = exchange(f"{url}/readyz", "GET", None, {})
        except CommandFailed:
            status = 0
        if status == 200:
            return
        if time.monotonic() > deadline:
            raise CommandFailed(f"{url}/readyz is not ready after {READY_WAIT_SECONDS:g} s; see the lines above")
        time.sleep(POLL_SECONDS)


def _first_source(admin: AdminApi) -> dict[str, object]:
    from hookline.connections.model import new_write_key

    source: dict[str, object] = admin.request("POST", "/sources", {**FIRST_SOURCE, "writeKeys": [new_write_key()]})
    return source


def text_of(
    page: Page, collect: str, sources: Sequence[Mapping[str, Any]], settings: Settings, quickstart: bool
) -> str:
    """Return what is printed; each line to paste is quoted for the shell."""
    lines = ["", "Hookline is ready.", "", f"  Page       {page.href}"]
    if page.once:
        next_step = ", and lets you create the owner account" if page.is_new else ""
        lines += [f"             The link works once, within {VALID_SECONDS / 60:.0f} minutes{next_step}."]
    lines += [f"  Collects   {collect}"]
    if sources:
        # The source of the first start, where it is still there: its key is the one people copied then.
        source = next((each for each in sources if each["id"] == FIRST_SOURCE["id"]), sources[0])
        key = source["writeKeys"][0]
        more = f"; {len(sources) - 1} more on the page" if len(sources) > 1 else ""
        event = json.dumps({"userId": "u1", "event": "Signed Up", "properties": {"plan": "pro"}})
        lines += [
            f"  Write key  {key} (source {printable(source['name'])}{more})",
            "",
            "See what a receiver gets (in a second terminal, in this folder):",
            f"  {command_line('listen', settings)}",
            "",
            "Send a first event (in a third one):",
            f"  curl -u {quote(f'{key}:')} {quote(f'{collect}/v1/track')} -d {quote(event)}",
        ]
    else:
        create = command_line("apply connections.yaml", settings)
        lines += ["", f"There is no source yet: create one on the page, or with {create}"]
    if quickstart:
        lines += ["", "Receivers on this machine are allowed (deliver.allow_networks: 127.0.0.0/8, ::1/128)."]
    return "\n".join([*lines, "Ctrl-C stops it; nothing is lost.", ""])


def main() -> None:
    """Print the welcome of the folder named on the command line; say why when there is none to print."""
    try:
        print(welcome(Path(sys.argv[1])), flush=True)
    except (CommandFailed, OSError) as error:
        print(f"hookline: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
