"""The example receivers, run as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.docs.pages import ROOT
from tests.service.client import send
from tests.service.harness import Hookline, free_port, wait_until, webhook

SECRET = "s3cret-of-the-example"
RECEIVERS = {"receiver.py": sys.executable, "receiver.mjs": "node"}


@pytest.fixture(params=RECEIVERS)
def example(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """An example receiver as a process, and its port."""
    port = free_port()
    file = ROOT / "examples" / "receivers" / request.param
    environment = {**os.environ, "SECRET": SECRET, "PORT": str(port)}
    process = subprocess.Popen(
        [RECEIVERS[request.param], str(file)], env=environment, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: answers(port), 10, "the example answers")
    yield process, port
    process.kill()
    process.communicate()


def answers(port: int) -> bool:
    """Whether the receiver refuses an unsigned request, as it must."""
    try:
        return send(port, "POST", "/", {}, {"X-Signature": "0" * 40}).status == 401
    except OSError:
        return False


def test_an_example_receiver_takes_what_hookline_signs(
    example: tuple[subprocess.Popen[str], int], new_hookline: Callable[..., Hookline]
) -> None:
    """It verifies the signature of an event that is hard to sign alike, and prints it."""
    process, port = example
    with new_hookline(webhook("crm", f"http://127.0.0.1:{port}/", secret=SECRET)) as hookline:
        message_id = hookline.track("Größe “42”", properties={"z": 1, "1": 1.0, "a": "</script>\u2028"})
        hookline.wait_fate(message_id, "crm", "delivered")
        assert process.stdout is not None
        body = json.loads(process.stdout.readline())
        assert body["event"] == "Größe “42”"
        assert body["properties"] == {"z": 1, "1": 1, "a": "</script>\u2028"}
