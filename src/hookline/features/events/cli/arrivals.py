"""How ``hookline listen`` shows what arrives: JSON lines, plain text, or coloured text in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime

from hookline.cli.terminal_text import printable
from hookline.features.events.cli.listen import Arrival

VERDICTS = {"valid": ("✓ signed", "green"), "invalid": ("✗ wrong signature", "red"), "missing": ("✗ unsigned", "red")}


def printer(as_json: bool) -> Callable[[Arrival], None]:
    """The way to show arrivals on this standard output."""
    if as_json:
        return show_json
    return _coloured() if sys.stdout.isatty() else show_text


def show_json(arrival: Arrival) -> None:
    """One JSON object per line."""
    print(json.dumps(arrival.json(), ensure_ascii=False), flush=True)


def show_text(arrival: Arrival) -> None:
    """A head line and the body, indented."""
    body = arrival.json()["body"]
    print(f"{_clock(arrival)}  {_title(body)}  {VERDICTS[arrival.signature][0]}  {arrival.headers.get('x-message-id')}")
    print(_pretty(body), flush=True)


def _coloured() -> Callable[[Arrival], None]:
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console()

    def show(arrival: Arrival) -> None:
        body = arrival.json()["body"]
        verdict, colour = VERDICTS[arrival.signature]
        # Text, not markup: what arrives may hold anything, square brackets included.
        console.print(
            Text(f"{_clock(arrival)}  ", style="dim"),
            Text(_title(body), style="bold"),
            Text(f"  {verdict}", style=colour),
            Text(f"  {arrival.headers.get('x-message-id')}", style="dim"),
            sep="",
        )
        console.print(Syntax(_pretty(body), "json", theme="ansi_dark", background_color="default", word_wrap=True))

    return show


def _clock(arrival: Arrival) -> str:
    return datetime.fromtimestamp(arrival.at_ms / 1000).strftime("%H:%M:%S.%f")[:-3]


def _title(body: object) -> str:
    if not isinstance(body, dict):
        return "not JSON"
    words = [str(body.get(name)) for name in ("type", "event", "name", "groupId") if body.get(name)]
    who = body.get("userId") or body.get("User ID") or body.get("anonymousId")
    return printable(" ".join(words) + (f" by {who}" if who else ""))


def _pretty(body: object) -> str:
    return printable(json.dumps(body, indent=2, ensure_ascii=False), keep="\n")
