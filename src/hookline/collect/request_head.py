"""The rules for a request's head that llhttp does not hold it to: sizes, versions, Host, Transfer-Encoding."""

from __future__ import annotations

import re
from functools import lru_cache

from hookline.collect.exchange import Headers
from hookline.collect.limits import HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX

WANTED = frozenset(
    (
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"authorization",
        b"content-encoding",
        b"expect",
        b"upgrade",
        b"traceparent",
        b"x-write-key",
    )
)
"""The headers that are looked at; there may be only one of each."""
LISTS = frozenset((b"accept-encoding", b"if-none-match", b"origin", b"x-forwarded-for", b"x-ip-policy"))
"""Those of which several make one list (RFC 9110 5.3)."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_HOSTS_REMEMBERED = 256
_HEADER_FRAME_BYTES = len(": \r\n")


class RequestHead:
    """A request's head as it comes in; one object serves all requests of a connection in turn."""

    __slots__ = ("_fields", "headers", "target")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the request before."""
        self.target = b""
        self.headers: Headers = {}
        self._fields: list[tuple[bytes, bytes]] = []

    def add(self, name: bytes, value: bytes) -> None:
        """Take in one header."""
        self._fields.append((name, value))

    def judge(self, version: str) -> str | None:
        """Settle ``headers``; return the code that refuses the request, if any."""
        head_bytes = len(self.target)
        if len(self._fields) > HEADERS_MAX or head_bytes > TARGET_BYTES_MAX:
            return "headers_too_large"
        headers = self.headers
        duplicated = False
        for name, value in self._fields:
            head_bytes += len(name) + len(value) + _HEADER_FRAME_BYTES
            name = name.lower()
            if name in WANTED:
                duplicated = duplicated or name in headers
                headers[name] = value.rstrip(b" \t")
            elif name in LISTS:
                headers[name] = headers[name] + b"," + value if name in headers else value
        if head_bytes > HEAD_BYTES_MAX:
            return "headers_too_large"
        return "malformed_request" if duplicated else self._fault(version)

    def _fault(self, version: str) -> str | None:
        if version != "1.1" and version != "1.0":
            return "malformed_request" if version == "0.9" else "http_version_not_supported"
        host = self.headers.get(b"host")
        if (host is None and version == "1.1") or (host is not None and not _is_host(host)):
            return "malformed_request"
        coding = self.headers.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
            return "malformed_request"
        if not self.target.startswith(b"/"):
            return "malformed_request"
        return None


@lru_cache(_HOSTS_REMEMBERED)
def _is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None
