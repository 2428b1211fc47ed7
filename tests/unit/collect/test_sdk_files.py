"""The browser SDK served here is the one of its package, names no host but ours, and is cheap to ask for again."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest

from hookline.collect.decode import PIPELINED_MAX
from hookline.collect.http.request import CLOSING
from hookline.collect.http.router import BUNDLES, FOLDER, HOSTS
from hookline.connections.model import Snapshot, Source
from tests.service.waiting import wait_until
from tests.unit.collect.wire import DISABLED_KEY, KEY, TRACK, Running, request

SCRIPT = f"/analytics.js/v1/{KEY}/analytics.min.js"
BUNDLE = f"/analytics-next/bundles/{BUNDLES[0]}"
SECONDS_MAX = 5.0
"""Of CPU, for an answer that takes a millisecond, on a slow and busy machine too."""


def test_the_files_are_those_of_the_package() -> None:
    """Each file has its recorded sum and there is no other; name, version and licence lie beside them."""
    recorded = dict(reversed(line.split("  ./")) for line in (FOLDER / "SHA256SUMS").read_text().splitlines())
    names = {path.name for path in FOLDER.iterdir()} - {"SHA256SUMS"}
    assert recorded == {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in names}
    package = json.loads((FOLDER / "package.json").read_bytes())
    assert (package["name"], package["license"]) == ("@segment/analytics-next", "MIT")
    assert "Permission is hereby granted" in (FOLDER / "LICENSE.MD").read_text()


def test_only_the_hosts_differ(edge: Running) -> None:
    """With the hosts put back, the served script holds the package's file byte for byte."""
    served = edge.get(SCRIPT).body
    for literal, ours in reversed(HOSTS):
        assert ours in served
        served = served.replace(ours, literal)
    assert (FOLDER / "standalone.js").read_bytes() in served


def test_no_other_host_is_left_to_talk_to(edge: Running) -> None:
    """What is left that looks like a host is the name of Segment's own plugin and a page of its manual."""
    text = re.sub(r"//# sourceMapping.*", "", edge.get(SCRIPT).body.decode())
    hosts = set(re.findall(r"[A-Za-z0-9.-]+\.(?:com|io|net|org|build)\b", text))
    assert hosts == {"Segment.io", "dest-Segment.io", "segment.com"}
    for address in re.findall(r'"(https?://[^"]+)', text):
        assert address.startswith("https://segment.com/docs/") or address == "https://cdn.segment.(com|build)"


@pytest.mark.parametrize("source", ["served", *BUNDLES])
def test_it_is_javascript(edge: Running, source: str) -> None:
    """Node reads each file as a script."""
    script = edge.get(SCRIPT if source == "served" else f"/analytics-next/bundles/{source}").body
    done = subprocess.run(["node", "--check", "-"], input=script, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(("path", "caching"), [(SCRIPT, "max-age=3600"), (BUNDLE, "immutable")])
def test_what_is_held_is_not_sent_again(edge: Running, path: str, caching: str) -> None:
    """An ETag per encoding, 304 without a body for either, in any way to write the condition."""
    plain, packed = edge.get(path), edge.get(path, Accept_Encoding="gzip, deflate, br")
    assert plain.headers["etag"] != packed.headers["etag"]
    for first in (plain, packed):
        assert (caching in first.headers["cache-control"], first.headers["vary"]) == (True, "Accept-Encoding")
        tag = first.headers["etag"]
        for condition in (tag, f"W/{tag}", f'"other", {tag}'):
            answer = edge.get(path, If_None_Match=condition, Accept_Encoding="gzip")
            assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
            assert caching in answer.headers["cache-control"]
    assert edge.get(path, If_None_Match='"other"').status == 200


@pytest.mark.parametrize(
    ("accepted", "packs"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("br", False),
        ("gzip;q=1.5", False),
        ("notgzip, gzipped", False),
        ("," * 20_000 + "gzip", True),
        ("", False),
    ],
)
def test_gzip_is_sent_to_those_who_take_it(edge: Running, accepted: str, packs: bool) -> None:
    """Only when the client names gzip and does not refuse it; the text is the same."""
    answer = edge.get(SCRIPT, Accept_Encoding=accepted)
    assert ("content-encoding" in answer.headers) is packs
    assert (gzip.decompress(answer.body) if packs else answer.body) == edge.get(SCRIPT).body
    assert len(edge.get(SCRIPT, Accept_Encoding="gzip").body) < 40_000


@pytest.mark.parametrize("accepted", ["gzip" + " " * 60_000 + "x", "gzip" + " " * 30_000 + ";" + " " * 30_000 + "q=x"])
def test_blanks_in_what_is_accepted_keep_nobody_waiting(edge: Running, accepted: str) -> None:
    """However many there are: a header that is read again from each of them would hold up all that is collected."""
    begun = time.process_time()
    assert "content-encoding" not in edge.get(BUNDLE, Accept_Encoding=accepted).headers
    assert time.process_time() - begun < SECONDS_MAX


def test_lists_may_come_in_several_headers(edge: Running) -> None:
    """Accept-Encoding and If-None-Match are lists, and a list may be cut over several headers."""
    head = f"GET {SCRIPT} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip\r\n\r\n"
    assert edge.ask(head.encode()).headers["content-encoding"] == "gzip"


def test_other_pages_may_load_it(edge: Running) -> None:
    """As a script of any origin, also on pages that isolate themselves; never guessed to be anything else."""
    for path in (SCRIPT, BUNDLE):
        headers = edge.get(path).headers
        assert headers["content-type"] == "text/javascript; charset=utf-8"
        assert headers["access-control-allow-origin"] == "*"
        assert headers["cross-origin-resource-policy"] == "cross-origin"
        assert headers["x-content-type-options"] == "nosniff"


def test_head_is_the_head_of_get(edge: Running) -> None:
    """HEAD has the length and no body, and POST is 405."""
    assert edge.get(SCRIPT, "HEAD").headers == edge.get(SCRIPT).headers
    answer = edge.post(SCRIPT, {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(("key", "code"), [("nobody", "unknown_write_key"), (DISABLED_KEY, "source_disabled")])
def test_the_script_is_for_known_keys(edge: Running, key: str, code: str) -> None:
    """A key mistyped in a page shows in the browser's console."""
    answer = edge.get(f"/analytics.js/v1/{key}/analytics.min.js")
    assert (answer.status, edge.reason(answer)) == (401, code)
    assert edge.get(f"/analytics.js/v1/{'k' * 700}/analytics.min.js").status == 401


@pytest.mark.parametrize("key", ["a/b", "a%41", "a?b#c", "%2F", "a b+c".replace(" ", "&")])
def test_any_key_fits_into_a_path(start: Callable[..., Running], key: str) -> None:
    """A key is found percent-encoded, and as it is where nothing in it ends a path."""
    edge = start(snapshot=Snapshot(version=1, sources=(Source(id="odd", name="Odd", write_keys=(key,)),)))
    for written in {quote(key, safe=""), quote(key)} | ({key} if not {"?", "#"} & set(key) else set()):
        assert edge.get(f"/analytics.js/v1/{written}/analytics.min.js").status == 200
        settings = edge.get(f"/v1/projects/{written}/settings").json
        assert settings["integrations"]["Segment.io"]["apiKey"] == key


def test_who_reads_nothing_gets_no_more(start: Callable[..., Running]) -> None:
    """A client that asks for thousands of files without reading one gets no more of them, and after thirty seconds is
    closed."""
    edge = start()
    asked = f"GET {SCRIPT} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    wire = edge.wire().send(asked * 2_000)
    edge.until(lambda: edge.edge.counters.requests[b"200"])

    def dropped() -> bool:
        edge.pass_seconds(31)  # again, where it stopped to read only after the clock was turned
        return edge.call(lambda: edge.edge.counters.open_connections) == 0

    wait_until(dropped)
    assert edge.edge.counters.requests[b"200"] < 200
    wire.socket.close()


def test_files_behind_an_event_are_few(start: Callable[..., Running]) -> None:
    """Files asked for in one go behind an event that is not yet durable wait for it; past a few, no more do."""
    edge = start()
    edge.memory.hold = True
    asked = f"GET {SCRIPT} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode()
    wire = edge.wire().send(request("/v1/t", TRACK) + asked * 50)
    edge.until(lambda: any(client._phase == CLOSING for client in edge.edge._clients._open))
    edge.call(edge.memory.release)
    statuses = [wire.answer().status for _ in range(PIPELINED_MAX + 1)]
    assert statuses == [200] * PIPELINED_MAX + [503]
    assert wire.closed()
