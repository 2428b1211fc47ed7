"""Ask a person before a command sends, discards or rotates anything."""

from __future__ import annotations

import sys

from hookline.cli.admin_api import CommandFailed
from hookline.cli.app import USAGE


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Go on with ``yes``, or if a person on a terminal says so.

    Raise CommandFailed if the answer is no (``otherwise`` then says what did not happen), and with the code of wrong
    usage where nobody can answer: a script says ``--yes``.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{question} Nobody can answer here: {otherwise}. Give --yes", exit_code=USAGE)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # what a program reads of us stays clean
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed(otherwise)
