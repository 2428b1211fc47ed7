"""What is particular to ``lib_curl``: it looks at no answer, and a fork leaves its connection to the parent."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_client import Client, InvalidOption
from tests.clients.python.consumers.conftest import GOOD, port_of
from tests.service.deliver.certificates import Authority
from tests.service.harness import Receiver, wait_until

NewClient = Callable[..., Client]


def test_batches_of_one_hundred_over_one_connection(service: Receiver, new_client: NewClient) -> None:
    """Nothing leaves before there are a hundred, the rest with the flush, and libcurl keeps its connection."""
    client = new_client(service.port, "lib_curl", flush_after=3600.0)
    for _ in range(250):
        client.track("u1", "Test")
    assert client.flush().handed_over == 250
    sizes = [len(request.json["batch"]) for request in service.requests]
    assert (sizes[0], max(sizes), sum(sizes)) == (100, 100, 250)
    assert service.connections == 1


def test_closing_ends_a_request_that_hangs(silence: socket.socket, new_client: NewClient) -> None:
    """close keeps to its time though libcurl still waits; the event is counted as lost."""
    client = new_client(port_of(silence), "lib_curl", batch_size=1, timeout=60.0)
    client.track("u1", "Test")
    began = time.monotonic()
    client.close(0.1)
    assert time.monotonic() - began < 30
    wait_until(lambda: client.stats.dropped + client.stats.gave_up == 1, what="counted")


def test_a_fork_leaves_the_connection_to_the_parent(service: Receiver, new_client: NewClient) -> None:
    """The child sends over a connection of its own and ends; the parent goes on with the one it had."""
    client = new_client(service.port, "lib_curl")
    client.track("parent", "Test")
    client.flush()
    child = os.fork()
    if child == 0:
        client.track("child", "Test")
        os._exit(0 if client.flush(10.0).handed_over == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    client.track("parent", "Test")
    assert client.flush().handed_over == 1
    first, of_child, last = service.requests
    assert first.connection == last.connection != of_child.connection


FORKED_OVER_TLS = """
import os, sys
from hookline_client import Client
client = Client("wk", endpoint=sys.argv[1], consumer="lib_curl", ca_file=sys.argv[2])
client.track("parent", "Test")
client.flush()
child = os.fork()
client.track("parent" if child else "child", "Test")
if child:
    assert os.waitpid(child, 0)[1] == 0
assert client.flush().handed_over == 1
"""


def test_over_tls_a_child_says_no_goodbye_for_its_parent(tmp_path: Path) -> None:
    """The child ends as programs do, freeing everything; the parent's encrypted connection is still good."""
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server()) as service:
        service.respond = lambda request: GOOD
        arguments = [f"https://127.0.0.1:{service.port}", str(authority.file)]
        subprocess.run([sys.executable, "-c", FORKED_OVER_TLS, *arguments], check=True, timeout=60)
        first, of_child, last = service.requests
    assert first.connection == last.connection != of_child.connection


FORKED_IN_A_REQUEST = """
import os, socket, sys
from hookline_client import Client
silence = socket.create_server(("127.0.0.1", 0))
client = Client("wk", endpoint=f"http://127.0.0.1:{silence.getsockname()[1]}", consumer="lib_curl", batch_size=1,
                exit_timeout=0.1)
client.track("parent", "Test")
connection, _ = silence.accept()  # libcurl waits for an answer now
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_in_the_middle_of_a_request() -> None:
    """libcurl was at work in a thread that the child does not have; parent and child both end well."""
    subprocess.run([sys.executable, "-c", FORKED_IN_A_REQUEST], check=True, timeout=60)


def test_without_pycurl_it_cannot_be_chosen(new_client: NewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client says which module is missing, when it is made."""
    monkeypatch.setitem(sys.modules, "pycurl", None)
    monkeypatch.delitem(sys.modules, "hookline_client.consumers.curl_transport", raising=False)
    monkeypatch.delitem(sys.modules, "hookline_client.consumers.lib_curl", raising=False)
    with pytest.raises(InvalidOption, match="pycurl"):
        new_client(1, "lib_curl")
