"""The commands around a running service: runs the one that was asked for.

Names, options and help are in the modules imported here, a module per group; what a command does is in the module named
after it. ``up`` and the roles appear here for the help only; ``main`` dispatches them before this module is imported.
"""

from __future__ import annotations

import sys

from cyclopts import CycloptsError

from hookline.cli.admin_api import CommandFailed
from hookline.cli.app import SERVICE, USAGE, app
from hookline.cli.service import commands as service
from hookline.cli.service.options import SUMMARIES
from hookline.features.accounts import cli as accounts
from hookline.features.audiences import cli as audiences
from hookline.features.connections.cli import commands as connections
from hookline.features.connections.cli import objects
from hookline.features.dead_letters import cli as dead_letters
from hookline.features.destinations import cli as destinations
from hookline.features.events.cli import commands as events
from hookline.features.insights import cli as insights
from hookline.features.people import cli as people
from hookline.features.privacy import cli as privacy
from hookline.features.replays import cli as replays

FEATURES = (
    accounts,
    audiences,
    connections,
    dead_letters,
    destinations,
    events,
    insights,
    objects,
    people,
    privacy,
    replays,
    service,
)
"""Importing them is what makes their commands known."""


def execute(arguments: list[str]) -> int:
    """Run the command and return its exit code; failures are one sentence on standard error."""
    try:
        code = app(arguments or ["--help"], exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return USAGE
    except CommandFailed as failure:
        print(f"hookline: {failure}", file=sys.stderr)
        return failure.exit_code
    return code if isinstance(code, int) else 0


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
    objects.sources_app,
    objects.destinations_app,
    objects.audiences_app,
    objects.computed_traits_app,
    objects.notices_app,
    people.people_app,
    privacy.deletions_app,
    privacy.suppressions_app,
    accounts.users_app,
    accounts.tokens_app,
):
    app.command(_app)
