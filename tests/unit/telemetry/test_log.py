"""What the log lines of a role look like."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import logging
from hookline.telemetry import log
log.configure("control", "json")
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
logging.getLogger("asyncio").info("nobody asked")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("uvicorn.error").exception("Exception in ASGI application\\n")
"""


def test_what_libraries_say_is_structured_too() -> None:
    """Their warnings are lines like all others, with the role, and their tracebacks fields."""
    lines = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stderr
    warned, failed = (json.loads(line) for line in lines.splitlines())
    assert (warned["role"], warned["level"], warned["library"]) == ("control", "warning", "uvicorn.error")
    assert warned["message"] == "Invalid HTTP request received."
    assert (failed["level"], failed["message"]) == ("error", "Exception in ASGI application")
    assert "ZeroDivisionError" in failed["exception"]
