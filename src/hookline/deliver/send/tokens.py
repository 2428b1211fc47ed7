"""OAuth 2 client credentials (RFC 6749 section 4.4): tokens are fetched, kept, and renewed before they end.

A ``TokenRoute`` stands before the way to a receiver. While there is no token its requests wait for one, no more of them
than its lane may have in flight; if none can be had they fail, and are tried again like any other.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.pool import Exchanges
from hookline.deliver.send.port import Failure, Opaque, Route, Sink
from hookline.kinds.model import Auth
from hookline.outcomes.outcome import Outcome, to_number

USUAL_SECONDS = 3_600.0
"""How long a token holds that does not say so."""
EARLY_SHARE = 0.1
EARLY_SECONDS_MAX = 60.0
"""A token is renewed so long before its end: a tenth of its time, a minute at most."""
TOKEN_CHARACTERS_MAX = 8_192
RENEWED_AGAIN_SECONDS = 5.0
"""A 401 ends a token that is older than this; a younger one is what the receiver does not accept."""
ASKED_AGAIN_SECONDS = 5.0
"""After a renewal that failed, the token that still holds is used for so long before the next try."""

_END_OF_LINE = b"\r\n"


class TokenRefused(Exception):
    """No token could be had; the message says why."""


class _Waiting(NamedTuple):
    inner: Route
    target: Opaque
    requests: list[tuple[Opaque, bytes]]
    whole: int
    since: float


class TokenRoute(Route):
    """Sends with a keeper's token in ``Authorization``."""

    def __init__(self, inner: Route, keeper: TokenKeeper) -> None:
        self._inner = inner
        self._keeper = keeper

    def send(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]]) -> None:
        """Send requests with the token, once there is one."""
        self._keeper.send(self._inner, target, list(requests), 0)

    def ask(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]], body_bytes_max: int) -> None:
        """Send requests whose answers are read whole, with the token, once there is one."""
        self._keeper.send(self._inner, target, list(requests), body_bytes_max)

    def unauthorized(self, milliseconds: int) -> bool:
        """Note a 401 to a request that left so long ago; return whether the next one comes with another token."""
        return self._keeper.expire(milliseconds)

    def __hash__(self) -> int:
        """Return that of the route behind it, which is what a sender knows."""
        return hash(self._inner)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._inner


class TokenKeeper:
    """Has the token of one client, which all that authorizes itself so shares."""

    def __init__(self, auth: Auth, exchanges: Callable[[], Exchanges], results: Sink) -> None:
        self._url = parse_receiver_url(auth.token_url)
        self._auth = auth
        self._exchanges = exchanges
        self._results = results
        self._line = b""
        """The header line with the token, empty while there is none."""
        self._fetched_at = 0.0
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._newest: tuple[str, ...] = ()
        self._waiting: list[_Waiting] = []
        self._fetching: asyncio.Task[None] | None = None

    def send(self, inner: Route, target: Opaque, requests: list[tuple[Opaque, bytes]], whole: int) -> None:
        """Send requests by a route with the token, once there is one."""
        now = monotonic()
        waiting = _Waiting(inner, target, requests, whole, now)
        if self._line and now < self._renew_at:
            self._pass_on(waiting)
            return
        self._waiting.append(waiting)
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    def expire(self, milliseconds: int) -> bool:
        """Let go of a token that a receiver did not accept, unless it is new; return whether the request, which left so
        long ago, had another one than the next will have."""
        now = monotonic()
        if now - milliseconds / 1000 < self._fetched_at:
            return True  # it left before this token was there
        if now - self._fetched_at <= RENEWED_AGAIN_SECONDS:
            return False
        self._line = b""
        return True

    def newest(self) -> tuple[str, ...]:
        """Return the newest token and the one before, which a receiver may still answer to."""
        return self._newest

    def _pass_on(self, waiting: _Waiting) -> None:
        requests = [(token, _with_line(request, self._line)) for token, request in waiting.requests]
        if waiting.whole:
            waiting.inner.ask(waiting.target, requests, waiting.whole)
        else:
            waiting.inner.send(waiting.target, requests)

    async def _fetch(self) -> None:
        failure: Failure | None = None
        try:
            token, seconds = read_token(await self._exchanges().send(self._url, token_request(self._url, self._auth)))
            now = monotonic()
            self._fetched_at = now
            self._ends_at = now + seconds
            self._renew_at = now + seconds - min(seconds * EARLY_SHARE, EARLY_SECONDS_MAX)
            self._line = b"Authorization: Bearer %b\r\n" % token.encode("latin-1")
            self._newest = (token, *self._newest[:1])
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what waits is tried again, and a token with it
            said = str(error) if isinstance(error, TokenRefused) else f"{type(error).__name__}: {error}"
            now = monotonic()
            if self._line and now < self._ends_at:
                self._renew_at = min(now + ASKED_AGAIN_SECONDS, self._ends_at)
            else:
                failure = Failure(Outcome.CONNECTION_FAILED, None, f"no token from {self._url.host}: {said}")
        self._fetching = None
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if failure is None:
                self._pass_on(each)
                continue
            milliseconds, result = int((monotonic() - each.since) * 1000), to_number(failure.outcome, None)
            for token_of_caller, _ in each.requests:
                own = Failure(failure.outcome, None, failure.error, is_unsent=True)
                self._results.answered(token_of_caller, each.target, result, milliseconds, own)


def token_request(url: ReceiverUrl, auth: Auth) -> bytes:
    """Return the request for a token; the client shows itself by HTTP Basic, as every server must take it."""
    asked = {"grant_type": "client_credentials"}
    asked |= {name: value for name, value in (("scope", auth.scope), ("audience", auth.audience)) if value}
    body = urlencode(asked).encode()
    pair = f"{quote(auth.client_id, safe='')}:{quote(auth.client_secret, safe='')}"
    lines = [
        f"POST {url.target} HTTP/1.1",
        f"Host: {url.host_header}",
        "Connection: close",
        "Accept: application/json",
        "Content-Type: application/x-www-form-urlencoded",
        f"Authorization: Basic {b64encode(pair.encode()).decode()}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


def read_token(exchange: Exchange) -> tuple[str, float]:
    """Return the token of an answer, and for how many seconds it holds; raise TokenRefused where there is none."""
    if exchange.status is None:
        raise TokenRefused(exchange.error or exchange.outcome.value)
    if not 200 <= exchange.status < 300:
        said = exchange.body[:200].decode("utf-8", "replace")
        raise TokenRefused(f"it answered {exchange.status} {said}".rstrip())
    try:
        token = msgspec.json.decode(exchange.body, type=_Token, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("the answer holds no access_token") from None
    text = token.access_token
    if not text.isascii() or not text.isprintable() or not 0 < len(text) <= TOKEN_CHARACTERS_MAX:
        raise TokenRefused("the access_token cannot be sent in a header")
    seconds = token.expires_in
    return text, seconds if seconds is not None and seconds > 0 else USUAL_SECONDS


def _with_line(request: bytes, line: bytes) -> bytes:
    end = request.index(_END_OF_LINE) + len(_END_OF_LINE)
    return request[:end] + line + request[end:]
