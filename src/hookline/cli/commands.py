"""The commands around a running service: runs the one that was asked for.

Names, options and help are in the modules imported here, a module per group; what a command does is in the module named
after it. ``up`` and the roles appear here for the help only; ``main`` dispatches them before this module is imported.
"""

from __future__ import annotations

import os
import sys

from cyclopts import CycloptsError, UnusedCliTokensError

from hookline.cli import completion
from hookline.cli.admin_api import CommandFailed
from hookline.cli.app import SERVICE, USAGE, app
from hookline.cli.service import commands as service
from hookline.cli.service.options import SUMMARIES
from hookline.features.accounts import cli as accounts
from hookline.features.audiences import cli as audiences
from hookline.features.catalog import cli as kinds
from hookline.features.connections.cli import commands as connections
from hookline.features.connections.cli import objects
from hookline.features.dead_letters import cli as dead_letters
from hookline.features.destinations import cli as destinations
from hookline.features.events.cli import commands as events
from hookline.features.insights import cli as insights
from hookline.features.issues import cli as issues
from hookline.features.notifications import cli as notifications
from hookline.features.overview import cli as overview
from hookline.features.people import cli as people
from hookline.features.privacy import cli as privacy
from hookline.features.replays import cli as replays

FAILED = 1
FEATURES = (
    accounts,
    audiences,
    completion,
    connections,
    dead_letters,
    destinations,
    events,
    insights,
    issues,
    kinds,
    notifications,
    objects,
    overview,
    people,
    privacy,
    replays,
    service,
)
"""Importing them is what makes their commands known."""


def execute(arguments: list[str]) -> int:
    """Run the command and return its exit code; failures are one sentence on standard error, never a traceback."""
    unreadable = [each for each in arguments if not each.isascii() and not _is_text(each)]
    if unreadable:
        print(f"hookline: {unreadable[0]!a} is not UTF-8; arguments have to be", file=sys.stderr)
        return USAGE
    try:
        code = app(arguments or ["--help"], exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        print(f"hookline: {_wrong_usage(error)}", file=sys.stderr)
        return USAGE
    except CommandFailed as failure:
        print(f"hookline: {failure}", file=sys.stderr)
        return failure.exit_code
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("HOOKLINE_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        print(f"hookline: {what}. With HOOKLINE_TRACEBACK=1 it shows where", file=sys.stderr)
        return FAILED
    return code if isinstance(code, int) else 0


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong_usage(error: CycloptsError) -> str:
    """Say what is wrong with the arguments, and which help has the right form."""
    command = " ".join(("hookline", *(error.command_chain or ())))
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        what = f"{command} does not take {' '.join(map(repr, error.unused_tokens))}."
    else:
        what = str(error).strip()
    return f"{what} See {command} --help"


def _service_command(name: str) -> None:
    def started_by_main() -> None:
        raise AssertionError(f"{name} is dispatched by hookline.cli.main")

    started_by_main.__doc__ = SUMMARIES[name] + f" Options: hookline {name} --help."
    app.command(started_by_main, name=name, group=SERVICE)


for _name in SUMMARIES:
    _service_command(_name)
for _app in (
    replays.replay_app,
    dead_letters.dead_letters_app,
    issues.issues_app,
    kinds.kinds_app,
    objects.sources_app,
    objects.destinations_app,
    objects.audiences_app,
    objects.computed_traits_app,
    objects.notices_app,
    objects.notifications_app,
    people.people_app,
    privacy.deletions_app,
    privacy.suppressions_app,
    accounts.users_app,
    accounts.tokens_app,
):
    app.command(_app)
