"""How changes of the connections are shown: a sign, the object, and each field before and after; coloured in a
terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hookline.cli.terminal_text import printable

SIGNS = {"create": "+", "change": "~", "delete": "-"}
_COLOURS = {"create": "green", "change": "yellow", "delete": "red"}


def print_changes(changes: Sequence[dict[str, Any]], *, would: bool) -> None:
    """Print what changed, or would change; objects that stay are not shown."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    shown = [change for change in changes if change["action"] in SIGNS]
    for change in shown:
        colour = _COLOURS[change["action"]]
        note = f"  ({printable(change['note'])})" if change.get("note") else ""
        console.print(Text(f"{SIGNS[change['action']]} {change['kind']} {printable(change['id'])}{note}", colour))
        for field in change.get("fields") or []:
            line = Text(f"    {printable(field['path'])}: ")
            line.append(_value(field.get("before")), "red").append(" → ").append(_value(field.get("after")), "green")
            console.print(line)
    if not shown:
        print("nothing to change")
    elif would:
        print(f"{len(shown)} would change")


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
