"""docs/reference/cli.md against the commands and their options."""

from __future__ import annotations

import re

import pytest
from cyclopts import App

from hookline.cli.commands import app
from hookline.cli.service.options import SUMMARIES, parser
from hookline.settings import keys
from tests.docs.pages import DOCS, section

HELP = {"--help", "-h", "--version"}


def commands(of: App, prefix: str = "") -> dict[str, App]:
    """Every command by its whole name, those below others included; one that only groups others is none."""
    found: dict[str, App] = {}
    for name in set(of) - HELP:
        command = of[name]
        if command.default_command is not None:
            found[prefix + name] = command
        found |= commands(command, f"{prefix}{name} ")
    return found


COMMANDS = {name: command for name, command in commands(app).items() if command.show}
"""What ``--help`` shows: scripts ask another one, and people do not."""
TOOLS = sorted(COMMANDS.keys() - set(SUMMARIES))
SERVER_OPTIONS = {"--config", "--data-dir", "--api", "--token", "--insecure-http", "--utc"}


def documented_options(heading: str) -> set[str]:
    """The options in the table under a heading."""
    return set(re.findall(r"^\| `(--[a-z-]+)", section("reference/cli.md", heading), re.MULTILINE))


@pytest.mark.parametrize("command", TOOLS)
def test_tool_options_are_documented(command: str) -> None:
    """Each command's table lists exactly its options, those that name the server aside: they have one table."""
    arguments = COMMANDS[command].assemble_argument_collection()
    names = {name for argument in arguments for name in argument.names if name.startswith("--")}
    assert documented_options(f"hookline {command}") == names - SERVER_OPTIONS


@pytest.mark.parametrize("command", list(SUMMARIES))
def test_service_options_are_documented(command: str) -> None:
    """The tables of up and the roles list exactly their options, settings aside: those have their own page."""
    options = {name for action in parser(command)._actions for name in action.option_strings}
    settings = {f"--{key}" for key in keys()} | {f"--{key.replace('_', '-')}" for key in keys()}
    assert documented_options(f"hookline {command}") == options - settings - HELP


def test_every_documented_command_exists() -> None:
    """The page describes no command that is not there."""
    headings = re.findall(r"^### hookline (\S+(?: \S+)?)$", (DOCS / "reference/cli.md").read_text(), re.MULTILINE)
    assert set(headings) == set(COMMANDS)
