"""The commands around a running service: runs the one that was asked for.

Names, options and help are in the modules imported here, a module per group; what a command does is in the module named
after it. ``up`` and the roles appear here for the help only; ``main`` dispatches them before this module is imported.
"""

from __future__ import annotations

import sys

from cyclopts import CycloptsError

from hookline.cli import (
    audience_commands,
    connection_commands,
    delivery_commands,
    event_commands,
    insight_commands,
    moving_commands,
    object_commands,
    people_commands,
    person_commands,
    privacy_commands,
    service_commands,
    trait_value_commands,
)
from hookline.cli.app import SERVICE, USAGE, app
from hookline.cli.failure import CommandFailed
from hookline.cli.letter_commands import letters_app
from hookline.cli.object_commands import (
    audiences_app,
    computed_traits_app,
    destinations_app,
    notices_app,
    sources_app,
)
from hookline.cli.options import SUMMARIES
from hookline.cli.people_commands import tokens_app, users_app
from hookline.cli.person_commands import people_app
from hookline.cli.privacy_commands import deletions_app, suppressions_app
from hookline.cli.replay_commands import replay_app

GROUPS = (
    audience_commands,
    connection_commands,
    delivery_commands,
    event_commands,
    insight_commands,
    moving_commands,
    object_commands,
    people_commands,
    person_commands,
    privacy_commands,
    service_commands,
    trait_value_commands,
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
app.command(replay_app)
app.command(letters_app)
app.command(sources_app)
app.command(destinations_app)
app.command(audiences_app)
app.command(computed_traits_app)
app.command(notices_app)
app.command(people_app)
app.command(deletions_app)
app.command(suppressions_app)
app.command(users_app)
app.command(tokens_app)
