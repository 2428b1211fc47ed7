"""``hookline notifications``: rules one by one, a test of each, and what they sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

from hookline.cli.admin_api import Json
from hookline.cli.app import HERE
from hookline.cli.tables import print_items
from hookline.cli.target import Options, printable
from hookline.features.connections.cli.objects import notifications_app

TEST_SECONDS = 60.0
"""Of patience: a mail server may take half a minute before it counts as failed, and its error is what is asked for."""
STATE_SHAPES = {"sent": "●", "queued": "◔", "failed": "■"}
"""Of messages; one that was replaced before it was sent is off."""


@notifications_app.command(name="test")
def send_test(id: str, /, *, options: Options = HERE) -> int:
    """Send a test message to every channel of a notification. Exit code 1 if one failed.

    Parameters
    ----------
    id
        Id of the notification.
    """
    path = f"/notifications/{quote(id, safe='')}/test"
    answer = options.admin().request("POST", path, timeout_seconds=TEST_SECONDS)
    channels = answer["channels"]
    if options.as_json:
        print(json.dumps(answer))
    for each in [] if options.as_json else channels:
        word = "sent" if each["sent"] else "failed"
        line = f"{word:<6}  {each['channel']:<7}  {each['to']}  {each['milliseconds']} ms"
        print(printable(line + (f"  {each['error']}" if each["error"] else "")))
    return 0 if all(each["sent"] for each in channels) else 1


@notifications_app.command
def messages(notification: str | None = None, /, *, limit: int = 50, options: Options = HERE) -> int:
    """List the newest messages of notifications, with their outcomes.

    Parameters
    ----------
    notification
        Only messages of this notification.
    limit
        How many to list.
    """
    found = options.admin().newest("/notification-messages", limit, notification=notification)
    if options.as_json:
        print(json.dumps(found))
    else:
        columns = ("Time", "State", "Channel", "Sent to", "Message", "Error")
        print_items(found, _line, "no message was sent yet", columns, _cells, options.utc)
    return 0


def _line(message: Json) -> str:
    at, _, channel, to, title, error = _cells(message, lambda text: text or "")
    return printable(f"{at}  {message['state']:<8}  {channel:<7}  {to}  {title}{f'  {error}' if error else ''}")


def _cells(message: Json, at: Callable[[str | None], str]) -> list[object]:
    state = f"{STATE_SHAPES.get(message['state'], '○')} {message['state']}"
    return [at(message["at"]), state, *(message[name] for name in ("channel", "to", "title", "error"))]
