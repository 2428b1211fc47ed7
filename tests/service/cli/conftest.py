"""Running commands against a service of a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from hookline.cli import main
from tests.service.harness import Hookline

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """This process's environment without settings of a Hookline."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}


def command(hookline: Hookline, *arguments: str) -> list[str]:
    """The command line of a command that talks to the service."""
    return [sys.executable, "-m", "hookline.cli.main", *arguments, "--data-dir", str(hookline.data)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command to its end in this process, which has what it imports already, and return what it printed.

    Commands that live longer, and whatever is about the process itself, are started with ``command``.
    """

    def run_command(hookline: Hookline, *arguments: str, piped: str = "") -> subprocess.CompletedProcess[str]:
        line = [*arguments, "--data-dir", str(hookline.data)]
        printed, said = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with monkeypatch.context() as here, Path(os.devnull).open() as nothing, _same_signals():
            here.chdir(hookline.folder)
            for name in os.environ.keys() - environment().keys():
                here.delenv(name)
            here.setattr("sys.stdin", StringIO(piped) if piped else nothing)
            with redirect_stdout(printed), redirect_stderr(said):
                code = main.run(line)
        return subprocess.CompletedProcess(line, code, *(_text(stream) for stream in (printed, said)))

    return run_command


@contextmanager
def _same_signals() -> Iterator[None]:
    """Some commands end by signals in a way of their own: not so this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _text(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
