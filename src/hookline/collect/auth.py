"""From a write key to its source: a header's, else the body's, else the query's.

A header is HTTP Basic's user name, else Jitsu's ``X-Write-Key``. Jitsu's keys are ``key:secret`` wherever they stand
(and ``key:***`` in the body); ours hold no colon, so what stands behind one is left away.

A look-up in a dictionary keyed by the whole key takes the same time whatever part of a guess is right.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from urllib.parse import parse_qsl

from hookline.collect.decode import BATCH_BYTES_MAX, QUERY_FIELDS_MAX, WRITE_KEY_CHARACTERS_MAX
from hookline.collect.http.request import Headers
from hookline.connections.model import Snapshot, Source


class WriteKeyRefused(Exception):
    """No enabled source goes with the request; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class WriteKeys:
    """The write keys of one snapshot; replaced as a whole when connections change."""

    __slots__ = ("_by_header", "_by_key", "batch_bytes_max", "may_be_old")

    def __init__(self, snapshot: Snapshot, may_be_old: bool = False) -> None:
        self.may_be_old = may_be_old
        """Whether connections cannot be read just now: then a key that is not here may be in force all the same."""
        self._by_key: dict[str, Source] = {key: source for source in snapshot.sources for key in source.write_keys}
        self.batch_bytes_max = max((s.batch_bytes for s in self._by_key.values() if s.enabled), default=BATCH_BYTES_MAX)
        """The largest batch that any source takes."""
        # Nearly every SDK sends the key in one of these two spellings, so the header need not be taken apart.
        self._by_header: dict[bytes, Source] = {
            b"Basic " + b64encode(user.encode()): source
            for key, source in self._by_key.items()
            for user in (f"{key}:", key)
        }

    def of_headers(self, headers: Headers) -> Source | None:
        """Return the source that a request's headers name; None when they name none."""
        authorization = headers.get(b"authorization")
        if authorization is not None:
            source = self.of_header(authorization)
            if source is not None:
                return source
        key = headers.get(b"x-write-key")
        return self.of_key(key.decode("latin-1")) if key else None

    def of_header(self, authorization: bytes) -> Source | None:
        """Return the source of an Authorization header; None when the header names no user."""
        source = self._by_header.get(authorization)
        if source is not None:
            return self._enabled(source)
        user = _basic_user(authorization)
        return self.of_key(user) if user else None

    def of_key(self, key: object) -> Source:
        """Return the source of a write key; raise WriteKeyRefused."""
        if not isinstance(key, str) or not key:
            raise WriteKeyRefused("missing_write_key")
        source = self._by_key.get(key) if len(key) <= WRITE_KEY_CHARACTERS_MAX else None
        if source is None:
            source = self._by_key.get(key[: WRITE_KEY_CHARACTERS_MAX + 1].partition(":")[0])
        if source is None:
            raise WriteKeyRefused("connections_unread" if self.may_be_old else "unknown_write_key")
        return self._enabled(source)

    def _enabled(self, source: Source) -> Source:
        if not source.enabled:
            raise WriteKeyRefused("connections_unread" if self.may_be_old else "source_disabled")
        return source


def query_key(query: bytes) -> str | None:
    """Return the ``writeKey`` of a query string."""
    if b"writeKey" not in query:
        return None
    try:
        return dict(parse_qsl(query.decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX)).get("writeKey")
    except ValueError:
        return None


def _basic_user(authorization: bytes) -> str | None:
    scheme, _, credentials = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return None  # Segment's OAuth clients send Bearer with the write key in the body
    try:
        return binascii.a2b_base64(credentials.strip(), strict_mode=True).decode().partition(":")[0]
    except ValueError:
        raise WriteKeyRefused("unknown_write_key") from None
