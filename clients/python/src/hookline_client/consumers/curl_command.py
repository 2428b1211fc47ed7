"""A ``curl`` process that sends batches. What it sends and the write key reach it through files without a name.

Neither is on its command line, where every user of the machine could read it, nor in its environment, which holds
nothing but what curl needs to find its way.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from hookline_client.consumers.batch_request import BatchRequest
from hookline_client.consumers.private_file import private_file
from hookline_client.receipts import Message

ENVIRONMENT = (
    "PATH",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "LD_LIBRARY_PATH",
    "TZ",
)
"""What curl may see of our environment: the application's may hold the write key."""
RETRY_SECONDS = 60
"""How long a process that nobody waits for tries again."""


class CurlCommand:
    """How ``curl`` is called for these options."""

    def __init__(self, program: str, request: BatchRequest, ca_file: str | None) -> None:
        self._program = program
        self._request = request
        self._ca_file = ca_file

    def start(self, batches: Sequence[Sequence[Message]], seconds: float) -> subprocess.Popen[bytes]:
        """Start a process that sends these batches one after the other; OSError when it cannot be had.

        It tells on its stderr what failed, and on its stdout the answer.
        """
        lines = [f"max-time = {seconds:.3f}", "include", "suppress-connect-headers"]
        return self._start(batches, lines, subprocess.PIPE)

    def start_alone(
        self, batches: Sequence[Sequence[Message]], seconds: float, retries: int
    ) -> subprocess.Popen[bytes]:
        """Start a process that nobody need watch: it tries again by itself and says nothing. OSError as above."""
        lines = [f"max-time = {seconds:.3f}"]
        if retries:
            # A curl from before 7.71 passes over the first, and gives up when it was cut off.
            again = ["retry-all-errors", "retry-connrefused"]
            lines += [f"retry = {retries}", *again, f"retry-max-time = {RETRY_SECONDS}"]
        return self._start(batches, lines, subprocess.DEVNULL)

    def _start(
        self, batches: Sequence[Sequence[Message]], lines: Sequence[str], output: int
    ) -> subprocess.Popen[bytes]:
        opened: list[int] = []
        try:
            for batch in batches:
                opened.append(private_file(self._request.body(batch)))
            config = private_file("next\n".join(self._section(body, lines) for body in opened).encode())
            opened.append(config)
            return subprocess.Popen(
                [self._program, "-q", "--config", "-"],
                stdin=config,
                stdout=output,
                stderr=output,
                pass_fds=opened[:-1],
                env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                cwd="/",
                start_new_session=True,  # a Ctrl-C is meant for the application
            )
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _section(self, body: int, more: Sequence[str]) -> str:
        lines = [
            f"url = {_quoted(self._request.url)}",
            *(f"header = {_quoted(f'{name}: {value}')}" for name, value in self._request.headers.items()),
            'header = "Expect:"',
            f'data-binary = "@/dev/fd/{body}"',
            "globoff",
            "silent",
            "show-error",
            *more,
        ]
        if self._ca_file is not None:
            lines.append(f"cacert = {_quoted(self._ca_file)}")
        return "\n".join([*lines, ""])


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
