"""Sources that take larger batches: theirs are taken, those of others are not, and memory stays bounded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from hookline.collect import decode
from hookline.connections.model import BATCH_BYTES_MAX, Snapshot, Source
from tests.unit.collect.wire import Answer, Running, request

USUAL, LARGE = "wk_usual", "wk_large"
LARGER = Snapshot(
    version=1,
    sources=(
        Source(id="usual", name="Usual", write_keys=(USUAL,)),
        Source(id="large", name="Large", write_keys=(LARGE,), batch_bytes=BATCH_BYTES_MAX),
    ),
)


@pytest.fixture(scope="module")
def larger() -> Iterator[Running]:
    running = Running(LARGER)
    yield running
    running.stop()


def _batch(size_bytes: int, **fields: str) -> bytes:
    """A batch of exactly so many bytes, every event within its own limit."""
    empty = len(json.dumps({"batch": [], **fields}))
    count = (size_bytes - empty) // 30_000 + 1
    events: list[dict[str, Any]] = [{"type": "page", "userId": "u", "name": ""} for _ in range(count)]
    left = size_bytes - len(json.dumps({"batch": events, **fields}))
    for index, event in enumerate(events):
        event["name"] = "x" * (left // count + (index < left % count))
    return json.dumps({"batch": events, **fields}).encode()


def _post(edge: Running, body: bytes, key: str | None) -> Answer:
    return edge.post("/v1/batch", body, key=key)


def test_a_larger_batch_is_taken_up_to_its_sources_limit(larger: Running) -> None:
    """All 4,194,304 bytes, every event stored; one more is 413 and nothing of it is stored."""
    larger.memory.records.clear()
    answer = _post(larger, _batch(BATCH_BYTES_MAX), LARGE)
    assert answer.json["accepted"] == len(larger.memory.records) > 100
    larger.memory.records.clear()
    assert _post(larger, _batch(BATCH_BYTES_MAX + 1), LARGE).code == "batch_too_large"
    assert larger.memory.records == []


@pytest.mark.parametrize("where", ["header", "body"])
def test_other_sources_keep_the_usual_limit(larger: Running, where: str) -> None:
    """Wherever the key stands, 512,000 bytes are taken and one more is not."""
    fields = {"writeKey": USUAL} if where == "body" else {}
    key = USUAL if where == "header" else None
    assert _post(larger, _batch(decode.BATCH_BYTES_MAX, **fields), key).status == 200
    larger.memory.records.clear()
    assert _post(larger, _batch(decode.BATCH_BYTES_MAX + 1, **fields), key).code == "batch_too_large"
    assert larger.memory.records == []


def test_a_key_in_the_body_names_the_source_too(larger: Running) -> None:
    """A key that is known only when the body is there still has its source's limit."""
    assert _post(larger, _batch(2_000_000, writeKey=LARGE), None).status == 200
    assert _post(larger, _batch(BATCH_BYTES_MAX + 1, writeKey=LARGE), None).status == 413
    assert _post(larger, _batch(2_000_000, writeKey="nobody"), None).code == "unknown_write_key"


@pytest.mark.parametrize(("key", "size_bytes", "status"), [(LARGE, 4_194_304, 200), (LARGE, 4_194_305, 413)])
def test_what_inflates_has_the_same_limit(larger: Running, key: str, size_bytes: int, status: int) -> None:
    """RudderStack's Python SDK packs its batches."""
    packed = gzip.compress(_batch(size_bytes), 1)
    assert larger.post("/v1/batch", packed, key=key, Content_Encoding="gzip").status == status


def test_a_shared_context_counts_for_each_event(larger: Running) -> None:
    """What a batch of the largest size stores is not refused for a context that all its events share."""
    body = json.loads(_batch(BATCH_BYTES_MAX - 10_000))
    body["context"] = {"app": "x" * 2_000}
    assert _post(larger, json.dumps(body).encode(), LARGE).status == 200


def test_a_source_that_no_longer_asks_has_the_usual_limit(start: Callable[..., Running]) -> None:
    """With the next snapshot, also for heads that were judged before."""
    edge = start(snapshot=LARGER)
    wire, body = edge.wire(), request("/v1/batch", _batch(600_000), key=LARGE)
    assert [wire.send(body).answer().status for _ in range(2)] == [200, 200]
    usual = [msgspec.structs.replace(source, batch_bytes=decode.BATCH_BYTES_MAX) for source in LARGER.sources]
    edge.call(edge.edge.set_snapshot, Snapshot(version=2, sources=tuple(usual)))
    assert wire.send(body).answer().code == "batch_too_large"
