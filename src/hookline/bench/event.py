"""The event the benchmark sends: a 484-byte track call, numbered in its messageId so that each one can be counted."""

from __future__ import annotations

from base64 import b64encode

WRITE_KEY = "wk_bench"
ID_PREFIX = b"bench-"
ID_DIGITS = 10

_HEAD = (
    b'{"type":"track","event":"Order Completed","userId":"user-83115",'
    b'"anonymousId":"9f4b0ac2-6a43-4d2b-8d5a-7f2b7f0f3b11",'
    b'"timestamp":"2026-11-20T07:00:00.123Z","properties":{"orderId":"o-20261120-0042","total":129.95,"currency":"EUR",'
    b'"coupon":"AUTUMN","products":[{"sku":"A-1001","quantity":2,"price":39.95},'
    b'{"sku":"B-2002","quantity":1,"price":50.05}]},'
    b'"context":{"library":{"name":"hookline-bench","version":"1"},"ip":"203.0.113.7","locale":"de-DE"},"messageId":"'
)
_TAIL = b'"}'

EVENT_BYTES = len(_HEAD) + len(ID_PREFIX) + ID_DIGITS + len(_TAIL)

AUTHORIZATION = b"Basic " + b64encode(f"{WRITE_KEY}:".encode())


def event(number: int) -> bytes:
    """The event with this number."""
    return b"%b%b%010d%b" % (_HEAD, ID_PREFIX, number, _TAIL)


class Requests:
    """Builds whole HTTP requests of ``batch`` events each (0: one single track call)."""

    def __init__(self, host: str, batch: int) -> None:
        self.events = max(1, batch)
        self._single = batch == 0
        length = EVENT_BYTES if self._single else len(b'{"batch":[]}') + batch * (EVENT_BYTES + 1) - 1
        self._head = (
            b"POST %b HTTP/1.1\r\nHost: %b\r\nAuthorization: %b\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n"
            % (b"/v1/track" if self._single else b"/v1/batch", host.encode(), AUTHORIZATION, length)
        )
        self._between = _TAIL + b"," + _HEAD + ID_PREFIX

    def request(self, first: int) -> bytes:
        """The request with the events ``first`` to ``first + events - 1``."""
        if self._single:
            return self._head + event(first)
        numbers = [b"%010d" % number for number in range(first, first + self.events)]
        return b'%b{"batch":[%b%b%b%b]}' % (
            self._head,
            _HEAD,
            ID_PREFIX,
            self._between.join(numbers),
            _TAIL,
        )
