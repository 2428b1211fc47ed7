"""Command lines on hand-written pages: every one names a command that there is, and options that it takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from hookline.cli.commands import app
from hookline.cli.service.options import SUMMARIES, parser
from hookline.settings import keys
from hookline.web.docs import KINDS
from tests.docs.pages import DOCS, ROOT
from tests.docs.test_cli import commands

COMMANDS = commands(app)
GROUPS = {name.partition(" ")[0] for name in COMMANDS if " " in name}
BY_THE_CODE = {"api.md", "cli.md", "errors.md"}
LINES_MIN = 100
"""Fewer mean that they are no longer found."""
RUN_BY = {
    "add-a-destination-kind": "deploy/test_systemd_runs.py",
    "clients/another-language": "clients/test_book.py",
    "come-from-hookdeck": "docs/test_first_hour.py",
    "come-from-svix-or-convoy": "docs/test_examples.py",
    "let-people-in": "docs/test_how_to_commands.py",
    "make-an-audience": "docs/test_how_to_commands.py",
    "move-to-kafka-and-postgresql": "kafka/test_migrate_to.py",
    "pause-safely": "docs/test_how_to_commands.py",
    "replay-a-day": "docs/test_how_to_commands.py",
    "rotate-a-secret": "docs/test_how_to_commands.py",
    "run-in-production": "deploy/test_systemd_runs.py",
    "upgrade": "deploy/test_systemd_runs.py",
    "use-issues": "docs/test_how_to_commands.py",
    "use-the-api": "docs/test_first_hour.py",
}
"""The test that runs the commands of a how-to page."""
NOT_RUN = re.compile(r"docker |(?:export )?GRAFANA_PASSWORD=|make image|kubectl |helm ")
"""How blocks begin that no test runs: they need an engine with a registry, or a cluster."""


def test_commands_on_pages_exist() -> None:
    """What people paste from a page is understood by the command line of this version."""
    lines = list(command_lines())
    assert len(lines) >= LINES_MIN
    assert [f"{page}: {line}" for page, line in lines if not is_understood(line)] == []


def test_commands_of_how_to_pages_are_run() -> None:
    """Each page with commands is named by the test that runs them; those that nothing runs are of few kinds."""
    folder = DOCS / "how-to"
    found = {
        str(path.relative_to(folder).with_suffix(""))
        for path in folder.rglob("*.md")
        for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", path.read_text(), re.MULTILINE | re.DOTALL)
        if language in ("sh", "bash") or (not language and block.startswith(("hookline ", "pip ")))
        if not NOT_RUN.match(block)
    }
    assert found == set(RUN_BY)
    for page, test in RUN_BY.items():
        assert page.rpartition("/")[2] in (ROOT / "tests" / test).read_text(), page


def command_lines() -> Iterator[tuple[str, str]]:
    """Yield each ``hookline …`` of the pages, from their text and their blocks, with its page."""
    pages = [ROOT / "README.md", *DOCS.glob("*.md"), *(page for kind in KINDS for page in (DOCS / kind).rglob("*.md"))]
    for page in pages:
        if page.name in BY_THE_CODE:
            continue
        text = page.read_text()
        found = re.findall(r"`hookline ([a-z][^`|…\[]*)`", text)
        for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            joined = block.replace("\\\n", " ") if language in ("", "sh", "bash", "console") else ""
            found += re.findall(
                r"^(?:(?!helm|docker tag|docker run .* tar ).*[ /])?hookline ([a-z][^|\n]*)", joined, re.MULTILINE
            )
        yield from ((page.name, line) for line in found)


def is_understood(line: str) -> bool:
    """Return whether the command and its options are there."""
    words = shlex.split(line, comments=True)
    name = next((" ".join(words[:count]) for count in (2, 1) if " ".join(words[:count]) in COMMANDS), None)
    if name is None:
        return len(words) == 1 and words[0] in GROUPS
    if name in SUMMARIES:
        known = {option for action in parser(name)._actions for option in action.option_strings}
        known |= {f"--{key}" for key in keys()} | {f"--{key.replace('_', '-')}" for key in keys()}
    else:
        known = {option for each in COMMANDS[name].assemble_argument_collection() for option in each.names}
    return {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}
