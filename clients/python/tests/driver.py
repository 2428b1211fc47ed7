"""The driver of the Python library for the book of behaviour (clients/behaviour/README.md)."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))

from hookline_client import Client, InvalidOption  # noqa: E402 - found only now
from hookline_client.options import Options, resolve  # noqa: E402
from hookline_client.receipts import FlushResult  # noqa: E402
from hookline_client.version import VERSION  # noqa: E402

FEATURES = ["environment", "exit_hook", "fork", "free_fields", "loose_types", "nan", "thread", "upload"]
NO_NUMBERS = {"$NaN": float("nan"), "$Infinity": float("inf"), "$-Infinity": float("-inf")}
HANDLERS = ("error_handler", "before_send", "on_success", "transport")


class Driver:
    """One client and what its handlers were called with."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._codes: list[tuple[int, str]] = []
        self._acknowledged: list[str] = []
        self._closes_within: float | None = None

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a command says and return the answer."""
        answer: dict[str, Any] = getattr(self, f"_{command['do']}")(command)
        return answer

    def _describe(self, command: dict[str, Any]) -> dict[str, Any]:
        consumers = ["background", "socket", "file"]
        if importlib.util.find_spec("pycurl") is not None:
            consumers.append("lib_curl")
        if shutil.which("curl") is not None:
            consumers.append("fork_curl")
        return {
            "language": "python",
            "version": VERSION,
            "consumers": consumers,
            "features": FEATURES,
            "default_consumer": Options().consumer,
            "reads_answers": ["background"],
        }

    def _defaults(self, command: dict[str, Any]) -> dict[str, Any]:
        options = resolve(None, {"consumer": command["consumer"]}, {})
        values = {name: value for name, value in options._asdict().items() if name not in HANDLERS}
        return {"options": {**values, "consumer": Options().consumer, "timeout": options.timeout_seconds}}

    def _init(self, command: dict[str, Any]) -> dict[str, Any]:
        options = dict(command["options"])
        try:
            self._client = Client(
                options.pop("write_key", None),
                {**options, "error_handler": self._on_error, "on_success": self._on_success},
            )
        except InvalidOption as error:
            return {"error": error.code}
        return {"ok": True}

    def _call(self, command: dict[str, Any]) -> dict[str, Any]:
        before = len(self._codes)
        message_id = getattr(self._living, command["type"])(filled(command["message"]))
        if message_id is not None:
            return {"messageId": message_id}
        # A call of this library raises nothing: why it was not taken is what the handler was told meanwhile, in here.
        codes = [code for thread, code in self._codes[before:] if thread == threading.get_ident()]
        return {"error": codes[-1]} if codes else {"messageId": None}

    def _calls(self, command: dict[str, Any]) -> dict[str, Any]:
        call = getattr(self._living, command["type"])
        messages = [filled(command["message"], number) for number in range(command["count"])]
        return {"taken": sum(call(message) is not None for message in messages)}

    def _flush(self, command: dict[str, Any]) -> dict[str, Any]:
        return counts(self._living.flush(command["seconds"]))

    def _close(self, command: dict[str, Any]) -> dict[str, Any]:
        return counts(self._living.close(command["seconds"]))

    def _close_in_handler(self, command: dict[str, Any]) -> dict[str, Any]:
        self._closes_within = command["seconds"]
        return {"ok": True}

    def _told(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"codes": [code for _, code in self._codes], "acknowledged": self._acknowledged}

    def _upload(self, command: dict[str, Any]) -> dict[str, Any]:
        arguments = [word for name, value in command["options"].items() for word in (option(name), str(value))]
        program = [
            sys.executable,
            "-c",
            "import sys; from hookline_client.uploader.command import main; sys.exit(main())",
        ]
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        return {"exit": subprocess.run([*program, *arguments], env=environment, check=False).returncode}

    def _fork(self, command: dict[str, Any]) -> dict[str, Any]:
        child = os.fork()
        if child == 0:
            for call in command["calls"]:
                getattr(self._living, call["type"])(filled(call["message"]))
            raise SystemExit(0)  # as a program ends: with its exit handlers
        _, status = os.waitpid(child, 0)
        return {"exit": os.waitstatus_to_exitcode(status)}

    def _die(self, command: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    @property
    def _living(self) -> Client:
        assert self._client is not None, "init comes first"
        return self._client

    def _on_error(self, code: str, message: str) -> None:
        self._codes.append((threading.get_ident(), code))
        self._close_now()

    def _on_success(self, ids: Sequence[str]) -> None:
        self._acknowledged.extend(ids)
        self._close_now()

    def _close_now(self) -> None:
        seconds, self._closes_within = self._closes_within, None
        if seconds is not None:
            self._living.close(seconds)


def counts(result: FlushResult) -> dict[str, int]:
    """Return a result as the protocol has it."""
    return {name: getattr(result, name) for name in FlushResult._fields if name != "receipts"}


def option(name: str) -> str:
    """Return an option of the upload program as its command line has it."""
    return "--" + name.replace("_", "-")


def filled(value: Any, number: int = 0) -> Any:
    """Return a message with its words replaced: ``{n}`` by the number, ``$NaN`` by what JSON cannot say."""
    if isinstance(value, str):
        return NO_NUMBERS.get(value, value.replace("{n}", str(number)))
    if isinstance(value, dict):
        return {name: filled(item, number) for name, item in value.items()}
    return [filled(item, number) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Answer commands until the input ends; the client is not closed, as programs forget to."""
    driver = Driver()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(driver.do(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
