"""The rules for a request's head that llhttp does not hold it to: sizes, versions, Host, Transfer-Encoding."""

from __future__ import annotations

import re

from hookline.collect.exchange import Headers
from hookline.collect.limits import HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX
from hookline.remembered import Remembered

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
LISTS = frozenset((b"accept-encoding", b"if-none-match", b"origin", b"forwarded", b"x-forwarded-for", b"x-ip-policy"))
"""Those of which several make one list (RFC 9110 5.3)."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_HOSTS_BYTES_MAX = 64 * 1024
_HOST_BYTES_MAX = 512
_LENGTH_DIGITS_MAX = 20
_HEADER_FRAME_BYTES = len(": \r\n")


class RequestHead:
    """A request's head as it comes in; one object serves all requests of a connection in turn."""

    __slots__ = ("_fields", "bytes", "headers", "target")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: a connection that rests keeps nothing of the request before."""
        self.bytes = 0
        self.target = b""
        self.headers: Headers = {}
        self._fields: list[tuple[bytes, bytes]] = []

    def extend_target(self, piece: bytes) -> bool:
        """Take in a piece of the request target; False when it is too long."""
        self.bytes += len(piece)
        self.target += piece
        return self.bytes <= TARGET_BYTES_MAX

    def add(self, name: bytes, value: bytes) -> bool:
        """Take in one header; False when there are too many, or too long ones, before the head has ended."""
        self.bytes += len(name) + len(value) + _HEADER_FRAME_BYTES
        self._fields.append((name, value))
        return self.bytes <= HEAD_BYTES_MAX and len(self._fields) <= HEADERS_MAX

    def judge(self, version: str) -> str | None:
        """Settle ``headers``; return the code that refuses the request, if any."""
        headers = self.headers
        duplicated = False
        for name, value in self._fields:
            name = name.lower()
            if name in WANTED:
                duplicated = duplicated or name in headers
                headers[name] = value.rstrip(b" \t")
            elif name in LISTS:
                headers[name] = headers[name] + b"," + value if name in headers else value
        return "malformed_request" if duplicated else self._fault(version)

    def _fault(self, version: str) -> str | None:
        if version != "1.1" and version != "1.0":
            return "malformed_request" if version == "0.9" else "http_version_not_supported"
        host = self.headers.get(b"host")
        if (host is None and version == "1.1") or (host is not None and not _is_host(host)):
            return "malformed_request"
        if len(self.headers.get(b"content-length", b"")) > _LENGTH_DIGITS_MAX:
            return "malformed_request"  # zeros in front: llhttp takes any number of them, Python's int does not
        coding = self.headers.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
            return "malformed_request"
        return None if self.target.startswith(b"/") else self._fault_of_absolute()

    def _fault_of_absolute(self) -> str | None:
        """Take a target in absolute form, as a proxy's client sends it, for its path and host (RFC 9112 3.2.2)."""
        found = _ABSOLUTE.match(self.target)
        if found is None or not _is_host(found[1]):
            return "malformed_request"
        self.headers[b"host"] = found[1]
        path = self.target[found.end() :]
        self.target = path if path.startswith(b"/") else b"/" + path
        return None


def _find_is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None


_is_host = Remembered(_find_is_host, _HOSTS_BYTES_MAX, _HOST_BYTES_MAX).__getitem__
