"""Hundreds of wrong uses of every command: each ends with a sentence and an exit code, none with a traceback."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Iterator

import pytest
from cyclopts import App

from hookline.cli import confirm as confirming
from hookline.cli.admin_api import CommandFailed
from hookline.cli.commands import app, execute
from hookline.cli.service.options import SUMMARIES

NOBODY = ["--api", "http://127.0.0.1:1", "--token", "no-token"]
LONG_RUNNING = {"bench", "simulate", "listen", "doctor", "tail", "migrate-to", "renew", "check", "diff", "apply"}
"""Not run with arguments that are right so far: they work without a service, or wait for one."""


def commands(found: App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every command, those of groups after their group."""
    for name in found:
        if name.startswith("-") or name in SUMMARIES:
            continue
        yield (*path, name)
        if isinstance(inner := found[name], App):
            yield from commands(inner, (*path, name))


def takes_a_destination(path: tuple[str, ...]) -> bool:
    """Return whether a command asks for a destination, as a word or as an option."""
    found = app
    for name in path:
        found = found[name]
    called = found.default_command
    return called is not None and "destination" in inspect.signature(called).parameters


COMMANDS = sorted(set(commands(app)))
REQUIRED_FIRST = {
    ("secrets",): ("secrets", "rotate"),
    ("retry-now",): ("retry-now", "--message-id", "m1"),
    ("dead-letters", "retry"): ("dead-letters", "retry", "--yes"),
    ("dead-letters", "discard"): ("dead-letters", "discard", "--yes"),
}
"""What else some of them need."""
WRONG = (
    ("--no-such-option",),
    ("--no-such-option=3", "x"),
    ("one", "two", "three", "four", "five"),
    ("--limit",),
    ("--limit", "many"),
    ("--port", "99999999"),
    ("--data-dir",),
    ("--config", "/nonexistent/hookline.yaml"),
    ("--config", "/dev/null/x"),
    ("--api", "ht!tp://"),
    ("--", "-1"),
    ("\udcff",),
    ("",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_wrong_use_is_one_sentence(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with it, somebody reads what, and where the right form is."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    tried = 0
    for wrong in WRONG:
        if command[0] in LONG_RUNNING and not wrong[0].startswith("--no-such"):
            continue
        code = execute([*command, *wrong, *NOBODY])
        said = capsys.readouterr()
        shown = ascii((wrong, said.out[-500:], said.err[-500:]))  # what a terminal cannot show breaks reports too
        assert code in (0, 1, 2), shown
        assert "Traceback" not in shown
        assert "HOOKLINE_TRACEBACK" not in shown  # nobody foresaw it
        if code:
            assert said.err[:10] == "hookline: ", shown
            assert said.err.count("\n") <= 2, shown
        tried += 1
    assert tried


def test_there_are_hundreds_of_them() -> None:
    """A tree of commands that is not walked would make every test above pass."""
    assert len(COMMANDS) * len(WRONG) > 600


def test_a_refused_argument_is_named_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in the words of the library that reads the arguments."""
    assert execute(["pause", "crm", "mailer"]) == 2
    assert capsys.readouterr().err == "hookline: hookline pause does not take 'mailer'. See hookline pause --help\n"


@pytest.mark.parametrize("time", ["soon", "99999999999999999d", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_is_none_is_wrong_usage(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that lies beyond what a clock can say."""
    assert execute(["dead-letters", "list", "--from", time, *NOBODY]) == 2
    assert capsys.readouterr().err.startswith("hookline: --from: write a time such as ")


@pytest.mark.parametrize(
    "command", [("why",), ("dead-letters", "show"), ("deletion-requests", "show"), ("sources", "show")], ids=" ".join
)
def test_an_empty_id_is_no_list(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is empty is refused before anything is asked of the service."""
    assert execute([*command, "", *NOBODY]) == 2
    assert "is empty" in capsys.readouterr().err


@pytest.mark.parametrize("id", ["first", "9" * 19, "9" * 5_000], ids=["a name", "19 digits", "5,000 digits"])
def test_an_id_that_no_dead_letter_has_is_wrong_usage(id: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked of the service, nor of the person."""
    assert execute(["dead-letters", "discard", id, *NOBODY]) == 2
    assert "the ids of dead letters are numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("usage", "users", "--by", "day"), "usage users takes none of --by, --from and --to"),
        (("people", "search", "x", "--limit", "500"), "200"),
        (("listen", "--secret", "whsec_bad"), "--secret: "),
        (("listen", "--api", "https://hookline.example.com"), "cannot reach a receiver on this machine"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_a_command_cannot_do_is_wrong_usage(
    command: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not left out silently, and nothing is asked of the service."""
    assert execute([*command, *(() if "--api" in command else NOBODY)]) == 2
    assert why in capsys.readouterr().err


def test_what_nobody_foresaw_is_a_sentence_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever mends it gets the traceback by asking for it."""

    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is upside down")

    monkeypatch.setattr("hookline.cli.commands.app", break_down)
    assert execute(["sources"]) == 1
    assert "RuntimeError: the disk is upside down" in capsys.readouterr().err
    monkeypatch.setenv("HOOKLINE_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        execute(["sources"])


class Terminal(io.StringIO):
    """Standard input of somebody who types this."""

    def isatty(self) -> bool:
        """Return that somebody is there."""
        return True


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_person_is_asked(
    typed: str, goes_on: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the input is a no; the question does not go where a program reads."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    if goes_on:
        confirming.confirm("Send 3 events?", False, "nothing was sent")
    else:
        with pytest.raises(CommandFailed, match="nothing was sent") as refused:
            confirming.confirm("Send 3 events?", False, "nothing was sent")
        assert refused.value.exit_code == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Send 3 events? [y/N] ")


@pytest.mark.parametrize(
    "command", [path for path in COMMANDS if takes_a_destination(path) and path[0] not in LONG_RUNNING], ids=" ".join
)
def test_a_destination_is_named_the_same_way_everywhere(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--destination`` is an option of every command about one, so that nobody has to remember which takes it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code = execute([*REQUIRED_FIRST.get(command, command), "--destination", "crm", *NOBODY])
    said = capsys.readouterr().err
    assert "Unknown option" not in said
    assert (code == 2) == ("Nobody can answer here" in said), said


def test_several_commands_take_a_destination() -> None:
    """Without any, the test above would try nothing."""
    assert len([path for path in COMMANDS if takes_a_destination(path)]) > 12


def test_a_receiver_answers_with_a_status_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that no client understands would look like a broken receiver."""
    assert execute(["listen", "--status", "9", *NOBODY]) == 2
    assert "200" in capsys.readouterr().err
