"""What ``hookline up`` prints in a terminal once the service is ready: the page's link and the first lines to paste.

Runs as ``python -m hookline.cli.service.welcome FOLDER``, a short-lived child of the supervisor. With ``--quickstart``
it also creates a first source where there is none.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hookline.cli.admin_api import AdminApi, CommandFailed, exchange, url_of
from hookline.cli.launch import LAUNCH_FILE, read

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
    token = settings.control.admin_token or (folder / "admin-token").read_text().strip()
    sources = AdminApi(control, token).sources()
    if not sources and launch.quickstart:
        sources = [_first_source(AdminApi(control, token))]
    keys = [key for source in sources if source["enabled"] for key in source["writeKeys"]]
    link = _one_time_link(folder, settings.control.public_url or control)
    return _text(link, settings.collect.public_url or collect, keys, launch.quickstart)


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


def _one_time_link(folder: Path, control: str) -> str:
    from hookline.api.auth.admin_token import one_time_link

    return one_time_link(folder) or control


def _text(link: str, collect: str, keys: list[str], quickstart: bool) -> str:
    lines = ["", "Hookline is ready.", "", f"  Page       {link}", f"  Collects   {collect}"]
    if keys:
        event = json.dumps({"userId": "u1", "event": "Signed Up", "properties": {"plan": "pro"}})
        lines += [
            f"  Write key  {keys[0]}",
            "",
            "See what a receiver gets (in a second terminal):",
            "  .venv/bin/hookline listen" if quickstart else "  hookline listen",
            "",
            "Send a first event (in a third one):",
            f"  curl -u {keys[0]}: {collect}/v1/track -d '{event}'",
        ]
    else:
        lines += ["", "There is no source yet: create one on the page, or with hookline apply connections.yaml"]
    if quickstart:
        lines += ["", "Receivers on this machine are allowed (deliver.allow_networks: 127.0.0.0/8, ::1/128)."]
    return "\n".join([*lines, "Ctrl-C ends it; nothing is lost.", ""])


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
