"""The examples for Laravel and Symfony, as applications behind PHP's own web server.

Each is copied, and gets a ``vendor/autoload.php`` as Composer makes one, of the Debian packages and this library.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.languages import PHP_FRAMEWORKS, php_frameworks
from tests.clients.php.driver import LIBRARY
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Reply, free_port, wait_until, webhook

CLASSES = {"laravel": "app", "symfony": "src"}
"""The folder of the application's classes."""
AUTOLOAD = """<?php
require '{framework}';
require '{library}/autoload.php';
spl_autoload_register(static function (string $class): void {{
    if (str_starts_with($class, 'App\\\\')) {{
        require __DIR__ . '/../{folder}/' . strtr(substr($class, 4), '\\\\', '/') . '.php';
    }}
}});
"""
ANSWER_SECONDS = 1.5
"""How long the service takes to answer: less than the examples' flush waits."""
GOOD = Reply(200, b'{"success": true}', {"Content-Type": "application/json"}, delay_seconds=ANSWER_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("framework", php_frameworks())
def test_the_page_is_out_before_the_events_are(framework: str, tmp_path: Path) -> None:
    """The service takes its time to answer, and the visitor does not wait for it."""
    with Receiver() as service:
        service.respond = lambda request: GOOD
        with application(framework, tmp_path, service.port) as port:
            assert order(port, "first") == (201, {"ordered": True})
            came = time.monotonic()
            wait_until(lambda: service.requests, what="a request at the service")
    assert came < service.requests[0].at + ANSWER_SECONDS
    (event,) = service.requests[0].json["batch"]
    assert (event["userId"], event["event"], event["properties"]) == ("first", "Order Completed", {"total": 12.5})
    assert event["context"]["ip"] == "127.0.0.1"
    assert event["context"]["userAgent"] == "browser"


@pytest.mark.slow
@pytest.mark.parametrize("consumer", ["lib_curl", "fork_curl", "socket"])
@pytest.mark.parametrize("framework", php_frameworks())
def test_an_order_reaches_the_destination(
    framework: str, consumer: str, new_hookline: Callable[..., Hookline], receiver: Receiver, tmp_path: Path
) -> None:
    """From the browser's request through the application and a real service to a receiver."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    with application(framework, tmp_path, hookline.collect_port, consumer) as port:
        for user in ("u1", "u2"):
            assert order(port, user) == (201, {"ordered": True})
        wait_until(lambda: len(receiver.requests) == 2, what="both orders at the receiver")
    assert {request.json["userId"] for request in receiver.requests} == {"u1", "u2"}


@contextmanager
def application(framework: str, folder: Path, service: int, consumer: str = "lib_curl") -> Iterator[int]:
    """Run the example of a framework against a service at this port; its own port is given out."""
    root = folder / framework
    shutil.copytree(LIBRARY / "examples" / framework, root)
    loader = AUTOLOAD.format(framework=PHP_FRAMEWORKS[framework], library=LIBRARY, folder=CLASSES[framework])
    (root / "vendor").mkdir()
    (root / "vendor/autoload.php").write_text(loader)
    environment = {
        "PATH": os.environ["PATH"],
        "APP_SECRET": "test",
        "HOOKLINE_WRITE_KEY": WRITE_KEY,
        "HOOKLINE_ENDPOINT": f"http://127.0.0.1:{service}",
        "HOOKLINE_CONSUMER": consumer,
    }
    port = free_port()
    command = ["php", "-S", f"127.0.0.1:{port}", str(root / "public/index.php")]
    log = root / "server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=said, stderr=said)
        try:
            wait_until(lambda: is_open(port), what="the web server")
            yield port
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{log.read_text()}") from failure
        finally:
            process.kill()
            process.wait()


def order(port: int, user: str) -> tuple[int, object]:
    """Order something; return status and body of the page as soon as they are there, and hang up.

    The page has no length and ends with its connection, which this web server closes only after the script; under
    PHP-FPM both frameworks end the request before.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "browser"}
    connection.request("POST", "/orders", json.dumps({"user": user, "total": 12.5}), headers)
    answer = connection.getresponse()
    body = answer.read1(65_536)
    connection.close()
    return answer.status, json.loads(body)


def is_open(port: int) -> bool:
    """Tell if somebody listens at the port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
