"""The kind opensearch against a real cluster, by hand: ``python -m tests.unit.kinds.real_opensearch http://127.0.0.1:9200``.

No test of the suite: a cluster is too much to fetch and start for one kind. It makes an index and a data stream whose
names begin with ``kinds-try``, says what it finds, and deletes both.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

from tests.unit.kinds.stand_in import StandIn, call

EVENTS = ("identify", "track", "page", "screen", "group", "alias")
NAMES = ("kinds-try-index", "kinds-try-stream")
WAIT_SECONDS = 60


class Cluster:
    """A cluster that is asked by plain HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask for something that succeeds."""
        data = None if body is None else json.dumps(body).encode()
        status, answer = self.send(method, f"{self.url}/{path}", {"Content-Type": "application/json"}, data)
        assert status < 300, answer
        return json.loads(answer)

    def send(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Send a request and return status and body of its answer."""
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as got:
                return got.status, got.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def outcomes(self, stand_in: StandIn, *records: Any) -> list[str]:
        """Send what a destination sends, and return what it makes of the cluster's answer."""
        sent = stand_in.one(*records)
        headers = {name: value for name, value in sent.headers.items() if name not in ("host", "content-length")}
        status, body = self.send(sent.method, sent.url, headers, sent.body)
        return stand_in.after(status, body, len(sent.events), sent.name)


def try_kind(cluster: Cluster, name: str, *, is_stream: bool) -> None:
    """Write, write again, write what is refused, and delete; raise AssertionError for what is not as expected."""
    ids = {"userId": {"type": "keyword"}, "properties": {"properties": {"at": {"type": "date"}}}}
    template = {"index_patterns": [name], "template": {"mappings": {"properties": ids}}}
    cluster.ask("PUT", f"_index_template/{name}", template | ({"data_stream": {}} if is_stream else {}))
    settings = {"url": cluster.url, "index": name, "deleteFrom": name, "userIdField": "userId"}
    stand_in = StandIn("opensearch", **settings)
    records = [call(type, f"m-{type}") for type in EVENTS]
    try:
        assert cluster.outcomes(stand_in, *records) == ["accepted"] * len(EVENTS)
        wrong = call("track", "m-wrong", properties={"at": "no date"})
        again = cluster.outcomes(stand_in, *records[:2], wrong, call("track", "m-new", userId="u2"))
        assert [each.split(":")[0] for each in again] == ["accepted", "accepted", "refused 400", "accepted"], again
        print(f"{name}: {again}")
        cluster.ask("POST", f"{name}/_refresh")
        assert cluster.ask("GET", f"{name}/_count")["count"] == len(EVENTS) + 1
        deleted = cluster.outcomes(stand_in, call("delete"))
        assert deleted == ["accepted"], deleted
        cluster.ask("POST", f"{name}/_refresh")
        left = cluster.ask("GET", f"{name}/_search?size=20")["hits"]["hits"]
        assert sorted(each["_source"].get("userId", "") for each in left) == ["", "u2"], left
    finally:
        cluster.ask("DELETE", f"_data_stream/{name}" if is_stream else name)
        cluster.ask("DELETE", f"_index_template/{name}")


def main() -> None:
    """Try an index and a data stream."""
    cluster = Cluster(sys.argv[1])
    print(cluster.ask("GET", "")["version"])
    for name in NAMES:
        try_kind(cluster, name, is_stream=name.endswith("stream"))
        print(f"{name}: as expected")


if __name__ == "__main__":
    main()
