"""The ``hookline`` command. The service's own commands are dispatched before anything heavy is imported."""

from __future__ import annotations

import gc
import io
import os
import sys

SERVICE_COMMANDS = ("up", "collect", "deliver", "profiles", "control")

INTERRUPTED = 130
"""The shells' exit code for a command ended with Ctrl-C."""


def main() -> None:
    """Run the command named on the command line and exit with its code: 0 done, 1 failed, 2 wrong usage."""
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # all of it goes with the process: to look for garbage in it first would take longer than the rest


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    command = arguments[0] if arguments else ""
    if command in SERVICE_COMMANDS:
        from hookline.telemetry import log_stream

        log_stream.install()
    if command == "up":
        from hookline.cli.service.up import up

        return up(arguments[1:])
    if command in SERVICE_COMMANDS:
        from hookline.cli.service.roles import role

        return role(command, arguments[1:])
    if not (sys.stdin and sys.stdout and sys.stderr):
        from hookline.telemetry import log_stream

        log_stream.open_closed()
    for stream in (sys.stdout, sys.stderr):
        # As up writes, and as files are read: in an older locale a command would do its work and then fail to say so.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    gc.disable()  # what imports make stays: to look through it again and again takes a tenth of the time of --help
    from hookline.cli.commands import execute

    gc.enable()
    try:
        return _written_out(execute(arguments))
    except BrokenPipeError:
        return _written_out(0)
    except SystemExit as ended:  # rich's word for the same
        if isinstance(ended.__context__, BrokenPipeError):
            return 0
        raise


def _written_out(code: int) -> int:
    """Return the exit code once everything printed has left; at the end of the process Python would make it 120."""
    try:
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of a pipe (`| head`) has seen enough
        pass
    except OSError as error:
        if code == 0:
            print(f"hookline: what was to be printed cannot be written: {error.strerror}", file=sys.stderr)
        code = code or 1
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    main()
