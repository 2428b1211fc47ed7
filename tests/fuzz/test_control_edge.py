"""Control's port under requests that are valid, nearly valid, or neither, from people who are known and who are not."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.fuzz.cases import Cases
from tests.fuzz.mutations import ODD_VALUES, altered, damaged, in_pieces, weighted
from tests.unit.api.described import described
from tests.unit.control.running import TOKEN, Running, destination, record, source

CASES = 500
ANSWER_SECONDS_MAX = 20.0
PAGES = (
    *(
        "/",
        "/login",
        "/sources",
        "/destinations",
        "/destinations/crm",
        "/destinations/crm/edit",
        "/sources/site",
        "/events",
    ),
    *(
        "/events/m1",
        "/audiences",
        "/traits",
        "/issues",
        "/dead-letters",
        "/replays",
        "/people",
        "/privacy",
        "/audit-log",
    ),
    *("/users", "/notices", "/usage", "/docs", "/docs/errors", "/docs/search?q=a", "/assets/", "/metrics", "/healthz"),
)
PUBLIC = re.compile(
    r"/+(?:login|logout|docs|assets|static|metrics|healthz|readyz|api/openapi|favicon|robots|\.well-known).*"
)
"""What everybody may read: nothing of it says what a company sends."""
ENDLESS = re.compile(r"/stream")
METHODS = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "G\u00cbT",
)
PARAMETERS = (
    "limit",
    "after",
    "before",
    "from",
    "to",
    "q",
    "source",
    "destination",
    "status",
    "type",
    "next",
    "sort",
    "x",
)
CREDENTIALS = (
    *(
        "Bearer ",
        "Bearer x",
        f"Bearer {TOKEN}x",
        f"bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        "Basic ",
        "Basic Og==",
        "Digest a",
    ),
    *("Bearer \u00e9", "Bearer " + "a" * 5_000, "Bearer hk_admin_", "\t", "Bearer null"),
)
HEADERS = (
    *(
        ("Content-Type", each)
        for each in ("text/plain", "application/json; charset=utf-16", "multipart/form-data", "a", "")
    ),
    *(
        ("Cookie", each)
        for each in ("hookline_session=x", "session=" + "a" * 3_000, "a=b; a=c", "hookline_session=../..", ";")
    ),
    *(("If-Match", each) for each in ("*", '"x"', "W/", '"' * 50)),
    *(("Idempotency-Key", each) for each in ("", "a" * 2_000, "\u00e9", "same")),
    *(("Sec-Fetch-Site", each) for each in ("cross-site", "same-origin", "x")),
    *(("Host", each) for each in ("evil.example.com", "", "[::1", "localhost:99999")),
    *(
        ("X-Forwarded-For", "1.1.1.1, x"),
        ("Range", "bytes=0-1,2-"),
        ("Accept", "text/html"),
        ("Accept-Encoding", "gzip;q=x"),
    ),
    *(
        ("Origin", "https://evil.example.com"),
        ("Expect", "100-continue"),
        ("Upgrade", "websocket"),
        ("Last-Event-ID", "-1"),
    ),
)
BODIES: tuple[Any, ...] = (
    *(source("made"), destination("made"), {"id": "spend", "name": "S", "event": "Order", "aggregate": "count"}),
    *(
        {"id": "big", "name": "B", "condition": {"event": "Order", "count": {"gte": 2}}},
        {"name": "vera"},
        {"name": "ci"},
    ),
    *({"destination": "crm", "from": "2026-01-01T00:00:00Z"}, {"userId": "u1", "action": "both"}, {"enabled": False}),
)


class Asked(NamedTuple):
    """A request and what may come of it."""

    data: bytes
    path: str
    is_known: bool


def request(random: Random, paths: list[str]) -> Asked:
    """A request to an address of the API or to a page, with a good token or without."""
    path = random.choice(random.choice((paths, PAGES)))
    path = re.sub(r"\{[^}]*\}", lambda _: _part(random), path)
    if random.random() < 0.1:
        path = random.choice(
            (path + "/", path + "/..", "/" + path, path.upper(), path + "%00", path + ";x", path + "/\u00e9")
        )
    query = "&".join(f"{random.choice(PARAMETERS)}={_part(random)}" for _ in range(random.choice((0, 0, 1, 2, 5))))
    target = path + ("&" if query and "?" in path else "?" if query else "") + query
    is_known = random.random() < 0.6
    credential = f"Bearer {TOKEN}" if is_known else random.choice((None, None, *CREDENTIALS))
    body = _body(random) if random.random() < 0.5 else b""
    headers = [("Host", "localhost"), ("Connection", "close")]
    headers += [("Content-Type", "application/json")] if body and random.random() < 0.7 else []
    headers += [("Authorization", credential)] if credential is not None else []
    headers += random.choices(HEADERS, k=random.choice((0, 0, 1, 2)))
    headers += [("Content-Length", str(len(body)))] if body else []
    lines = [f"{random.choice(METHODS[:5] if random.random() < 0.9 else METHODS)} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    return Asked("\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body, path, is_known)


def _part(random: Random) -> str:
    """A part of an address: an object that is there, or an odd value."""
    if random.random() < 0.5:
        return random.choice(("site", "crm", "m1", "u1", "1", "big", "spend", "2026-01-01T00:00:00Z", "10"))
    odd = random.choice(ODD_VALUES)
    text = odd if isinstance(odd, str) else json.dumps(odd)
    return quote(text[:3_000].encode("utf-8", "surrogatepass"), safe=random.choice(("", "/")))


def _body(random: Random) -> bytes:
    """JSON that is altered, bytes that are damaged, or a form."""
    value = altered(random, random.choice(BODIES), BODIES) if random.random() < 0.7 else random.choice(ODD_VALUES)
    data = json.dumps(value).encode()
    form = "&".join(f"{random.choice(PARAMETERS)}={_part(random)}" for _ in range(3)).encode()
    return weighted(random, data, (damaged(random, data), form, b"[" * 5_000, b'{"a":' * 2_000, b"\xff" * 50), 0.4)


def ask(port: int, random: Random, asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
    """Send it in pieces; None where the connection was closed before all was said."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as client:
        try:
            for piece in in_pieces(random, asked.data):
                client.sendall(piece)
        except OSError:
            return None
        answer = http.client.HTTPResponse(client, method=asked.data.partition(b" ")[0].decode())
        try:
            answer.begin()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except (ConnectionResetError, http.client.RemoteDisconnected):
            return None


def check_request(random: Random, control: Running, paths: list[str]) -> None:
    """An answer that is no fault of ours; nothing for strangers, and nothing done by them."""
    asked = request(random, paths)
    before = control.services.store.version
    found = ask(control.port, random, asked)
    if found is None:
        return
    status, headers, body = found
    assert 200 <= status < 500 or status in (501, 503, 505), (status, body[:500])
    if headers.get("content-type", "").startswith("application/problem+json") and body:
        problem = json.loads(body)
        assert problem["status"] == status
        assert problem["code"]
        assert problem["detail"]
    if not asked.is_known:
        assert control.services.store.version == before
        assert not 200 <= status < 300 or PUBLIC.fullmatch(asked.path) or asked.data.startswith(b"OPTIONS"), (
            status,
            body[:99],
        )


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control with one of everything."""
    with Running(tmp_path_factory.mktemp("fuzzed") / "data") as running:
        running.append(record("m1"))
        for path, body in (("/sources", source()), ("/destinations", destination())):
            running.api("POST", path, body)
        yield running


def test_no_request_harms_control(cases: Cases, control: Running) -> None:
    """No fault, no look inside for strangers; and it serves afterwards."""
    paths = [f"/api/v1{path.removeprefix('/api/v1')}" for path in described()["paths"] if not ENDLESS.search(path)]
    number = cases.run("control", CASES, lambda random: check_request(random, control, paths))
    print(f"{number} requests to control")
    assert control.api("GET", "/sources").status == 200
