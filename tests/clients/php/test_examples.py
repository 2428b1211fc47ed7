"""The examples of the PHP library in their frameworks: a page is asked for, and its event arrives."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.languages import php_frameworks
from tests.clients.php.driver import LIBRARY
from tests.service.harness import WRITE_KEY, Hookline, Receiver, free_port, wait_until, webhook


@pytest.mark.parametrize("framework", php_frameworks())
def test_an_example_sends_what_its_page_tracks(
    framework: str, new_hookline: Callable[..., Hookline], receiver: Receiver, tmp_path: Path
) -> None:
    """With PHP's own web server, a real Hookline and a receiver."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    port = free_port()
    command = ["php", "-S", f"127.0.0.1:{port}", str(LIBRARY / "examples" / f"{framework}.php")]
    settings = {"HOOKLINE_WRITE_KEY": WRITE_KEY, "HOOKLINE_ENDPOINT": f"http://127.0.0.1:{hookline.collect_port}"}
    log = (tmp_path / "php.log").open("w")
    page = subprocess.Popen(command, env={**os.environ, **settings, "APP_VAR": str(tmp_path)}, stdout=log, stderr=log)
    try:
        wait_until(lambda: "started" in (tmp_path / "php.log").read_text(), what="PHP's web server")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/order?total=3", timeout=30) as answer:
            assert answer.read() == b'{"ordered":3}'
        wait_until(lambda: len(receiver.requests) == 1, what="the event")
    finally:
        page.kill()
        page.wait()
        log.close()
    event = receiver.requests[0].json
    assert (event["event"], event["properties"]) == ("Order Completed", {"total": 3})
    assert event["context"]["library"]["name"] == "hookline-php"
