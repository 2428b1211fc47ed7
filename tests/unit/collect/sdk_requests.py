"""Requests as each SDK writes them, to the header: what was measured with the real ones, with values of our own."""

from __future__ import annotations

import gzip
import json
from typing import NamedTuple

from tests.unit.collect.wire import KEY, basic

AT = "2026-11-20T07:00:00"


class Sdk(NamedTuple):
    """One SDK's request: ``key`` names where the write key is, ``late_ms`` is how long its event waited."""

    path: str
    key: str
    content_type: str
    body: object
    late_ms: int = 877
    zipped: bool = False
    headers: tuple[str, ...] = ()

    def data(self) -> bytes:
        """The request's bytes."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        body = gzip.compress(body) if self.zipped else body
        lines = [f"POST {self.path} HTTP/1.1", "Host: localhost", f"Content-Type: {self.content_type}", *self.headers]
        lines += ["Content-Encoding: gzip"] if self.zipped else []
        lines += ["Authorization: " + basic(KEY + ":")] if self.key == "basic" else []
        return "\r\n".join([*lines, f"Content-Length: {len(body)}"]).encode() + b"\r\n\r\n" + body


def _event(message_id: str, **fields: object) -> dict[str, object]:
    return {"type": "track", "userId": "u1", "event": "Order", "messageId": message_id} | fields


def _batch(*events: dict[str, object], **envelope: object) -> dict[str, object]:
    return {"batch": list(events), **envelope}


_JSON = "application/json"
_SEGMENT_PYTHON = _batch(
    _event("a", anonymousId=None, integrations={}, timestamp=f"{AT}.123+00:00", context={"library": {}}),
    sentAt=f"{AT[:-2]}01.000385+00:00",
    writeKey=KEY,
)
_RUDDER_NODE = _batch(
    _event("e", originalTimestamp=f"{AT}.123Z", sentAt=f"{AT[:-2]}01.000Z", channel="server", context={"traits": {}}),
    timestamp=f"{AT[:-2]}01.000Z",
    sentAt=f"{AT[:-2]}01.000Z",
)
_NEXT = _event(
    "ajs-next-1795183894638-bff5cc38-18d7-4011-8ed9-31b70b9c7d14",
    userId=None,
    anonymousId="anon",
    timestamp=f"{AT}.123Z",
    integrations={"Segment.io": True},
    writeKey=KEY,
    _metadata={"bundled": ["Segment.io"], "unbundled": [], "bundledIds": []},
    context={"page": {"path": "/"}, "userAgentData": {"brands": []}, "campaign": {}},
)
_RUDDER_JS = _event("k", channel="web", originalTimestamp=f"{AT}.123Z", context={"sessionId": 1795183894})
_MOBILE = _batch(_event("n", timestamp=f"{AT}.123Z"), sentAt=f"{AT[:-2]}01.000Z", writeKey=KEY)

SDKS = {
    "1.1 segment python": Sdk("/v1/batch", "basic", _JSON, _SEGMENT_PYTHON),
    "1.1 segment python, gzip": Sdk("/v1/batch", "basic", _JSON, _SEGMENT_PYTHON, zipped=True),
    "1.2 rudder python": Sdk(
        "/v1/batch",
        "basic",
        _JSON,
        _batch(
            {
                "type": "identify",
                "userId": "u1",
                "messageId": "b",
                "channel": "server",
                "integrations": {"All": True},
                "context": {"traits": {"plan": "pro"}},
                "timestamp": f"{AT}.123456+00:00",
            },
            sentAt=f"{AT[:-2]}01.000385+00:00",
        ),
        zipped=True,
    ),
    "1.3 segment node": Sdk(
        "/v1/batch",
        "basic",
        _JSON,
        _batch(
            _event("node-next-1795183894638-x", timestamp=f"{AT}.123Z", _metadata={"nodeVersion": "20"}),
            writeKey=KEY,
            sentAt=f"{AT[:-2]}01.000Z",
        ),
    ),
    "1.4 analytics-node": Sdk(
        "/v1/batch",
        "basic",
        _JSON,
        _batch(_event("node-" + "0" * 69, timestamp=f"{AT}.123Z"), timestamp=f"{AT}Z", sentAt=f"{AT[:-2]}01.000Z"),
    ),
    "1.5 rudder node": Sdk("/v1/batch", "basic", "application/x-www-form-urlencoded", _RUDDER_NODE, zipped=True),
    "1.6 php": Sdk(
        "/v1/batch",
        "basic",
        _JSON,
        b'{"batch":[{"type":"track","userId":"u1","event":"Caf\\u00e9 \\/ Bar","messageId":"f","properties":{},'
        b'"timestamp":"%b.1230+00:00","context":{"library":{"consumer":"LibCurl"}}}],"sentAt":"%b01+00:00"}'
        % (AT.encode(), AT[:-2].encode()),
        headers=("User-Agent: analytics-php/2.0.0",),
    ),
    "1.7 php 1, go 1, ruby": Sdk(
        "/v1/import",
        "basic",
        _JSON,
        _batch(
            _event("g", timestamp="2026-11-20T08:00:00.123+01:00"), messageId="envelope", sentAt=f"{AT[:-2]}01.000Z"
        ),
    ),
    "1.8 go 2": Sdk(
        "/v1/batch",
        "basic",
        _JSON,
        _batch(
            _event("h", timestamp="2026-11-20T07:00:00+0000"),
            {"type": "alias", "userId": "u1", "previousId": "p1", "messageId": "h2", "timestamp": f"{AT}+0000"},
            messageId="envelope",
            sentAt="2026-11-20T07:00:01+0000",
            context={"library": {"name": "analytics-go"}},
        ),
        late_ms=1_000,
    ),
    "1.9 analytics-next": Sdk(
        "/v1/t", "basic", "text/plain", {**_NEXT, "sentAt": f"{AT[:-2]}01.000Z"}, headers=("Origin: https://a.example",)
    ),
    "1.10 analytics-next, batching": Sdk(
        "/v1/b", "basic", "text/plain", _batch(_NEXT, writeKey=KEY, sentAt=f"{AT[:-2]}01.000Z")
    ),
    "1.11 rudder js": Sdk(
        "/v1/track",
        "basic",
        "application/json;charset=UTF-8",
        {**_RUDDER_JS, "sentAt": f"{AT[:-2]}01.000Z"},
        headers=("AnonymousId: YW5vbg==", "sentAt: 2026-11-20T07:00:01.000Z"),
    ),
    "1.12 rudder js, beacon": Sdk(
        f"/beacon/v1/batch?writeKey={KEY}", "query", "text/plain", _batch({**_RUDDER_JS, "sentAt": f"{AT[:-2]}01.000Z"})
    ),
    "1.13 swift": Sdk("/v1/b", "body", "application/json; charset=utf-8", _MOBILE),
    "1.14 kotlin": Sdk("/v1/b", "body", "text/plain", _MOBILE, zipped=True),
    "1.15 react native": Sdk("/v1/b", "body", "application/json; charset=utf-8", _MOBILE),
    "1.16 a retry": Sdk("/v1/batch", "basic", _JSON, _SEGMENT_PYTHON, headers=("X-Retry-Count: 3",)),
}
"""By row of section 1 of what was measured; the last one is the sentence under its table."""
