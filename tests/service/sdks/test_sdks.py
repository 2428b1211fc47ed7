"""SDKs from the registries, only their host changed: every call arrives, with the right ids, and nothing is retried.

Between the SDK and the service stands a recorder that passes every request on unchanged, so that the test sees what
the SDK posted and how often. scripts/test-needs.sh puts the SDKs into ``build/sdk-venv`` and ``build/sdks``.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.service.client import send
from tests.service.harness import Hookline, Receiver, Reply, Request, wait_until, webhook

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
PYTHON = ROOT / "build/sdk-venv/bin/python"
NODE_MODULES = ROOT / "build/sdks/node_modules"
CALLS = {"identify", "track", "page", "screen", "group", "alias"}


@dataclass
class Run:
    """What one SDK's program did: the requests it posted, and what the receiver got, by message type."""

    posts: list[Request]
    items: dict[str, dict[str, Any]]
    sent_at: dict[str, datetime]
    received: dict[str, Request]
    statuses: list[int]
    hookline: Hookline


SDKS = {
    "segment_python": [str(PYTHON), str(PROGRAMS / "segment_python.py")],
    "rudder_python": [str(PYTHON), str(PROGRAMS / "rudder_python.py")],
    "segment_node": ["node", str(PROGRAMS / "segment_node.cjs")],
    "rudder_node": ["node", str(PROGRAMS / "rudder_node.cjs")],
}


@pytest.fixture(scope="module", params=SDKS)
def sdk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Run]]:
    """Run one SDK's program to its end against a service of its own."""
    with (
        Receiver() as receiver,
        Receiver() as recorder,
        Hookline(tmp_path_factory.mktemp("sdk"), [webhook("crm", receiver.url(), secret="s")]) as hookline,
    ):
        statuses: list[int] = []

        def pass_on(post: Request) -> Reply:
            answer = send(hookline.collect_port, post.method, post.path, post.body, _end_to_end(post.headers))
            statuses.append(answer.status)
            return Reply(answer.status, answer.body, {"Content-Type": answer.headers["content-type"]})

        recorder.respond = pass_on
        _run(SDKS[request.param], recorder.port)
        items = {item["type"]: item for post in recorder.requests for item in _batch(post)}
        sent_at = {item["type"]: _sent_at(post, item) for post in recorder.requests for item in _batch(post)}
        wait_until(lambda: len(receiver.requests) >= len(CALLS), what="all six calls at the receiver")
        received = {request.json["type"]: request for request in receiver.requests}
        assert len(receiver.requests) == len(received)
        yield request.param, Run(recorder.requests, items, sent_at, received, statuses, hookline)


def test_every_call_arrives_once(sdk: tuple[str, Run]) -> None:
    """Six calls made, six requests forwarded, each with the messageId that the SDK gave it."""
    _, run = sdk
    assert set(run.received) == set(run.items) == CALLS
    assert {k: r.message_id for k, r in run.received.items()} == {k: i["messageId"] for k, i in run.items.items()}


def test_what_arrives_is_what_was_said(sdk: tuple[str, Run]) -> None:
    """User, event, names, group, both identities of an alias, and the payloads."""
    _, run = sdk
    body = {kind: request.json for kind, request in run.received.items()}
    assert {body[kind]["userId"] for kind in CALLS - {"alias"}} == {"u1"}
    assert (body["track"]["event"], body["track"]["properties"]) == (
        "Order Completed",
        {"total": 12.5, "name": "Café 😀"},
    )
    assert (body["page"]["name"], body["page"]["properties"]["url"]) == ("Home", "https://x.test/")
    assert (body["screen"]["name"], body["screen"]["properties"]["tab"]) == ("Main", 2)
    assert (body["group"]["groupId"], body["group"]["traits"]) == ("g1", {"company": "Acme"})
    assert (body["alias"]["Previous ID"], body["alias"]["User ID"]) == ("old", "u1")
    assert "pro" in (body["identify"]["traits"].get("plan"), body["identify"]["context"].get("traits", {}).get("plan"))
    assert all("library" in body[kind]["context"] for kind in CALLS)


def test_time_is_kept_within_the_clocks_agreement(sdk: tuple[str, Run]) -> None:
    """timestamp as given, corrected by the difference between sentAt and arrival."""
    _, run = sdk
    given = datetime(2026, 11, 20, 7, 0, 0, 123000, tzinfo=UTC)
    for kind, request in run.received.items():
        fate = run.hookline.fate(request.message_id)
        assert fate is not None
        on_the_way = datetime.fromisoformat(fate["receivedAt"]) - run.sent_at[kind]
        at = datetime.fromisoformat(request.json["timestamp"])
        assert abs((at - given - on_the_way).total_seconds()) < 0.002


def test_nothing_is_retried(sdk: tuple[str, Run]) -> None:
    """All posts were answered 200, none repeats an item, and the service counted no duplicate."""
    _, run = sdk
    assert set(run.statuses) == {200}
    ids = [item["messageId"] for post in run.posts for item in _batch(post)]
    assert len(ids) == len(set(ids)) == len(CALLS)
    assert not [post for post in run.posts if int(post.headers.get("x-retry-count", "0")) > 0]
    for request in run.received.values():
        assert (run.hookline.fate(request.message_id) or {})["duplicates"] == 0


def test_rudder_packs_by_default(sdk: tuple[str, Run]) -> None:
    """The RudderStack SDKs sent gzip (so it was really read), the Segment ones did not."""
    name, run = sdk
    assert {post.headers.get("content-encoding") for post in run.posts} == {"gzip" if "rudder" in name else None}


def _run(command: list[str], port: int) -> None:
    environment = {
        **os.environ,
        "HOST": f"http://127.0.0.1:{port}",
        "WRITE_KEY": "wk_site",
        "NODE_PATH": str(NODE_MODULES),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _batch(post: Request) -> list[dict[str, Any]]:
    return list(_envelope(post)["batch"])


def _sent_at(post: Request, item: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(item.get("sentAt") or _envelope(post)["sentAt"])


def _envelope(post: Request) -> dict[str, Any]:
    body = gzip.decompress(post.body) if post.headers.get("content-encoding") == "gzip" else post.body
    return dict(json.loads(body))


def _end_to_end(headers: dict[str, str]) -> dict[str, str]:
    dropped = {"connection", "content-length", "host", "accept-encoding", "expect"}
    return {name: value for name, value in headers.items() if name not in dropped}
