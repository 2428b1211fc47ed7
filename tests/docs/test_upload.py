"""The page about ``hookline-upload`` names every option, every exit code, and commands that can be used."""

from __future__ import annotations

import re
import shlex

from hookline_client.errors import CODES
from hookline_client.options import environment_name
from hookline_client.uploader.command import make_parser
from hookline_client.uploader.exit_code import ExitCode
from tests.docs.pages import DOCS, rows, section

PAGE = "reference/clients/upload.md"


def test_every_option_is_on_the_page() -> None:
    """Options of the command and rows of the table are the same."""
    options = {option for action in make_parser()._actions for option in action.option_strings if option[:2] == "--"}
    assert options == {row[0].split()[0] for row in rows(PAGE) if row[0].startswith("--")}


def test_every_exit_code_is_on_the_page() -> None:
    """Exit codes and rows of the table are the same."""
    assert [int(code) for code in ExitCode] == [int(row[0]) for row in rows(PAGE) if row[0].isdigit()]


def test_the_commands_on_the_page_can_be_used() -> None:
    """Each command line, of cron and systemd too, is one that the command takes."""
    lines = re.findall(r"(?:^|\* |/)hookline-upload (--.*?)(?: && .*)?$", (DOCS / PAGE).read_text(), re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        assert make_parser().parse_args(shlex.split(line)).file


def test_the_environment_and_codes_on_the_pages_exist() -> None:
    """Variables and error codes are written as the library has them."""
    text = (DOCS / PAGE).read_text() + (DOCS / "reference/clients/spool.md").read_text()
    names = {environment_name(option) for option in ("write_key", "filename", "endpoint", "ca_file", "gzip")}
    assert set(re.findall(r"HOOKLINE_CLIENT_\w+", text)) == names | {
        environment_name("spool"),
        environment_name("spool_bytes"),
    }
    assert {"file_failed", "file_busy", "spool_failed", "queue_full"} <= CODES.keys() & set(
        re.findall(r"`(\w+)`", text)
    )


def test_files_beside_the_log_are_on_the_page() -> None:
    """The table of files is there for whoever finds one."""
    assert section(PAGE, "Files next to the log").count("| `PATH") == 5
