"""How ``hookline tail`` shows events: JSON lines, plain text, or coloured text in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hookline.cli.terminal_text import printable
from hookline.features.events.cli.event_stream import StreamMessage
from hookline.features.events.cli.tail import Show, TailFilter, name_of, user_of
from hookline.features.events.cli.why import MARKS

COLOURS = {"●": "green", "◔": "blue", "▲": "yellow", "■": "red", "○": "dim"}
"""By shape: never colour alone."""
OFF = "○"
STATUS_WIDTH = 20
TYPE_WIDTH = 8


def shower(wanted: TailFilter, as_json: bool) -> Show:
    """The way to show messages on this standard output."""
    if as_json:
        return show_json
    return _coloured(wanted) if sys.stdout.isatty() else _plain(wanted)


def show_json(message: StreamMessage) -> None:
    """One JSON object per line: the kind of the message and its data as the API sent it."""
    print(json.dumps({"kind": message.kind, "data": message.data}, ensure_ascii=False), flush=True)


def left_out(message: StreamMessage) -> str:
    """What is said of events that could not be followed."""
    count = message.data["count"]
    return f"… {count} event{'' if count == 1 else 's'} not shown: more came than can be followed"


def columns(wanted: TailFilter, message: StreamMessage) -> tuple[str, str, str, str, str]:
    """Time, shape, status, type, and the rest of a line."""
    event: dict[str, Any] = message.data
    status = wanted.status_of(event)
    at = datetime.fromisoformat(event["receivedAt"]).astimezone().strftime("%H:%M:%S.%f")[:-3]
    name, user = name_of(event) or event["messageId"], user_of(event)
    rest = f"{name}  {user or '–'}  {event['source']}"
    if event.get("rejection"):
        rest += f"  {event['rejection']['message']}"
    return at, MARKS.get(status, OFF), status.replace("_", " "), printable(event["type"]), printable(rest)


def _plain(wanted: TailFilter) -> Show:
    def show(message: StreamMessage) -> None:
        if message.kind == "skipped":
            print(left_out(message), flush=True)
            return
        at, shape, status, kind, rest = columns(wanted, message)
        print(f"{at}  {shape} {status:<{STATUS_WIDTH}}  {kind:<{TYPE_WIDTH}}  {rest}", flush=True)

    return show


def _coloured(wanted: TailFilter) -> Callable[[StreamMessage], None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)

    def show(message: StreamMessage) -> None:
        if message.kind == "skipped":
            console.print(Text(left_out(message), style="yellow"))
            return
        at, shape, status, kind, rest = columns(wanted, message)
        # Text, not markup: what arrives may hold anything, square brackets included.
        line = Text.assemble(
            (f"{at}  ", "dim"),
            (f"{shape} {status:<{STATUS_WIDTH}}  ", COLOURS[shape]),
            (f"{kind:<{TYPE_WIDTH}}  ", "dim"),
            rest,
        )
        console.print(line, soft_wrap=True)

    return show
