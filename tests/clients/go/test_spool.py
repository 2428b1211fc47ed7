"""A spool that programs in Go and Python share: what either left is sent by the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_client import Client
from tests.clients.go.programs import Program
from tests.clients.go.toolchain import ROOT
from tests.clients.spool import segments
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook

NOWHERE = "http://127.0.0.1:1"
EVENTS = 50
LEAVING = f"""
import os
from hookline_client import Client
client = Client({WRITE_KEY!r}, endpoint={NOWHERE!r}, spool=os.environ["SPOOL"])
print([client.track("python", "Left", message_id=f"python-{{n}}") for n in range({EVENTS})][-1], flush=True)
os._exit(1)
"""


@pytest.fixture
def hookline(new_hookline: Callable[..., Hookline], receiver: Receiver) -> Hookline:
    """A running service."""
    return new_hookline(webhook("crm", receiver.url())).start()


def arrived(receiver: Receiver) -> set[str]:
    """The messageIds at the receiver."""
    return {request.message_id for request in receiver.requests}


def test_python_sends_what_go_left(
    hookline: Hookline, receiver: Receiver, programs: list[Program], tmp_path: Path
) -> None:
    """A program in Go is killed while the service is away."""
    spool = str(tmp_path / "spool")
    options = {"write_key": WRITE_KEY, "endpoint": NOWHERE, "spool": spool}
    program = programs[0]
    assert program.do(do="init", options=options) == {"ok": True}
    ids = {
        program.do(do="call", type="track", message={"userId": "go", "event": "Left"})["messageId"]
        for _ in range(EVENTS)
    }
    program.begin(do="die")
    program.wait()
    with Client(WRITE_KEY, endpoint=f"http://127.0.0.1:{hookline.collect_port}", spool=spool) as client:
        client.flush(0)
        wait_until(lambda: arrived(receiver) >= ids, what="all that was left")
        wait_until(lambda: not segments(Path(spool)), what="the box removed")


def test_go_sends_what_python_left(
    hookline: Hookline, receiver: Receiver, programs: list[Program], tmp_path: Path
) -> None:
    """A program in Python ends in the middle while the service is away."""
    spool = tmp_path / "spool"
    paths = os.pathsep.join([str(ROOT / "clients/python/src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "SPOOL": str(spool), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", LEAVING], env=environment, stdout=subprocess.PIPE, check=False)
    waiting = [json.loads(line) for file in spool.rglob("*.log") for line in file.read_text().splitlines()]
    assert len(waiting) == EVENTS
    options = {"write_key": WRITE_KEY, "endpoint": f"http://127.0.0.1:{hookline.collect_port}", "spool": str(spool)}
    assert programs[0].do(do="init", options=options) == {"ok": True}
    programs[0].do(do="flush", seconds=1)
    wait_until(lambda: arrived(receiver) >= {event["messageId"] for event in waiting}, what="all that was left")
    wait_until(lambda: not segments(spool), what="the box removed")
