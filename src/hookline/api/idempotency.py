"""Idempotency keys: a request that is sent again gets the first one's answer, which is kept for a day."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Literal, cast

import msgspec
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from hookline.api.calls import Call, current_call
from hookline.api.problem import MEDIA_TYPE, Problem, body_too_large, render
from hookline.api.services import Services, control_database, part
from hookline.database.connect import Shared
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

HEADER = "idempotency-key"
REPEATED = (b"idempotency-replayed", b"true")
REFUSED = 400
BODY_BYTES_MAX = 18 * 1024 * 1024
"""The largest body that any call may have: a whole file of connections."""
KEPT_HEADERS = frozenset({b"content-type", b"location", b"etag"})

_KEY = re.compile(r"[!-~]{1,255}", re.ASCII)
_PROBLEMS: dict[State, Problem] = {
    "running": Problem(409, "idempotency_key_running", "The first request with this key is being served; wait for it."),
    "lost": Problem(
        409,
        "idempotency_outcome_unknown",
        "Hookline ended or failed while it served the first request with this key, or could not keep its answer; check"
        " whether it took effect, then use a new key.",
    ),
    "other_request": Problem(422, "idempotency_key_reused", "This key was used for another request; use a new one."),
}


class Idempotency:
    """ASGI middleware: only for a POST that has a key, and a caller who is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request once."""
        call = current_call()
        asked = scope["type"] == ScopeType.HTTP and scope["method"] == "POST" and call is not None
        if not asked or call is None or call.caller is None or HEADER not in call.headers:
            await self._app(scope, receive, send)
            return
        request: HTTPScope = scope  # type: ignore[assignment]  # its type was looked at
        handler = cast(HTTPRouteHandler, request["route_handler"])
        if not call.caller.may(handler.opt["needs"]):  # refused before its body is read
            await self._app(scope, receive, send)
            return
        services: Services = scope["litestar_app"].state.services
        if not _KEY.fullmatch(call.headers[HEADER]):
            problem = Problem(400, "invalid_idempotency_key", "A key has 1 to 255 visible ASCII characters.")
            await _answer(send, _problem(problem, request))
            return
        bytes_max = handler.resolve_request_max_body_size() or BODY_BYTES_MAX
        body = await _read(receive, bytes_max)
        if body is None:
            await _answer(send, _problem(body_too_large(bytes_max), request))
            return
        await self._once(kept_answers(services), request, call, body, send)

    async def _once(self, answers: KeptAnswers, scope: HTTPScope, call: Call, body: bytes, send: Send) -> None:
        key = _key(scope, call)
        found = answers.take(key, sha256(body).digest())
        if isinstance(found, KeptAnswer):
            await _answer(send, found, REPEATED)
        elif found != "new":
            await _answer(send, _problem(_PROBLEMS[found], scope))
        else:
            await self._serve(answers, key, scope, call, body, send)

    async def _serve(
        self, answers: KeptAnswers, key: bytes, scope: HTTPScope, call: Call, body: bytes, send: Send
    ) -> None:
        parts: list[bytes] = []
        start: Message | None = None
        settled = False

        async def send_kept(message: Message) -> None:
            nonlocal start, settled
            if message["type"] == "http.response.start":
                start = message
                return
            if message["type"] == "http.response.body":
                parts.append(message["body"])
                if message["more_body"] or start is None:
                    return
                # Before it leaves: whoever gets the answer may rely on getting it again.
                settled = True
                _settle(answers, key, call, start, b"".join(parts))
                await send(start)
                message = {"type": "http.response.body", "body": b"".join(parts), "more_body": False}
                start = None
            await send(message)

        try:
            await self._app(scope, _replayed(body), send_kept)
        except asyncio.CancelledError:  # by a stop: some of it may be done
            answers.lose(key)
            settled = True
            raise
        finally:
            if not settled:
                answers.give_back(key)


def _settle(answers: KeptAnswers, key: bytes, call: Call, start: Message, body: bytes) -> None:
    if start["type"] != "http.response.start":
        return
    if start["status"] >= REFUSED:
        if call.has_changed or call.leaves_open:
            answers.lose(key)
        else:
            answers.give_back(key)
        return
    if len(body) > ANSWER_BYTES_MAX:
        if call.only_looked and not call.has_changed:
            answers.give_back(key)
        else:
            answers.lose(key)
        return
    headers = tuple((bytes(name), bytes(value)) for name, value in start["headers"] if bytes(name) in KEPT_HEADERS)
    try:
        answers.keep(key, KeptAnswer(start["status"], headers, body))
    except OperationalError as error:  # the change is made already, so its answer must say so
        answers.lose(key)
        logger().warning("idempotent_answer_not_kept", reason=str(error))


def _key(scope: HTTPScope, call: Call) -> bytes:
    """Return what is one request: the same caller with the same rights, in the first line, address and key."""
    assert call.caller is not None
    query = scope["query_string"].decode("latin-1")
    return "\n".join((call.caller.key, scope["path"], query, call.headers[HEADER])).encode("utf-8", "replace")


async def _read(receive: Receive, bytes_max: int) -> bytes | None:
    """Return the whole body; None when it is larger than its route takes, or its sender left."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message["body"]
        more = message["more_body"]
        if len(body) > bytes_max:
            return None
    return bytes(body)


def _replayed(body: bytes) -> Receive:
    """Return what gives the body that was read already."""
    given = False

    async def receive() -> HTTPReceiveMessage:
        nonlocal given
        if given:
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _problem(problem: Problem, scope: HTTPScope) -> KeptAnswer:
    headers = ((b"content-type", MEDIA_TYPE.encode()),)
    return KeptAnswer(problem.status, headers, render(problem, scope["path"]))


async def _answer(send: Send, answer: KeptAnswer, *more: tuple[bytes, bytes]) -> None:
    headers = [*answer.headers, *more, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


KEPT_MS = 24 * 3_600_000
KEPT_ANSWERS_MAX = 10_000
"""Of one caller, so that nobody pushes out the keys of others."""
ANSWER_BYTES_MAX = 1_048_576
"""A larger answer is not kept, so its request is not done again under its key, unless it changed nothing."""
_NONCE_BYTES = 12
_CALLER_BYTES = 8


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True):
    """One answer as it was sent."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


State = Literal["new", "running", "lost", "other_request"]
"""What a key is found to be: not used yet; of a request that is being served; of one of which nobody knows what
came, because Hookline ended first or failed; of a request with another body."""


class KeptAnswers:
    """Takes keys, keeps their answers and finds them again."""

    def __init__(self, database: Shared, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._database = database
        self._now_ms = now_ms
        self._running: set[bytes] = set()

    def take(self, key: bytes, request: bytes) -> KeptAnswer | State:
        """Begin a request, or say what became of it when it was sent before; ``request`` tells requests apart."""
        digest, now = _digest(key), self._now_ms()
        with self._database.transaction() as execute:
            execute("DELETE FROM idempotency_keys WHERE at < ?", (now - KEPT_MS,))
            row = execute("SELECT request, answer FROM idempotency_keys WHERE digest = ?", (digest,)).fetchone()
            if row is None:
                first = digest[:_CALLER_BYTES]
                oldest = execute(
                    "SELECT digest FROM idempotency_keys WHERE digest BETWEEN ? AND ?"
                    " ORDER BY at DESC LIMIT ? OFFSET ?",
                    (first, first.ljust(len(digest), b"\xff"), KEPT_ANSWERS_MAX, KEPT_ANSWERS_MAX - 1),
                ).fetchall()
                for (each,) in oldest:
                    if each not in self._running:
                        execute("DELETE FROM idempotency_keys WHERE digest = ?", (each,))
                execute("INSERT INTO idempotency_keys (digest, at, request) VALUES (?, ?, ?)", (digest, now, request))
                self._running.add(digest)
                return "new"
        if row[0] != request:
            return "other_request"
        if row[1] is not None:
            return _opened(key, row[1])
        return "running" if digest in self._running else "lost"

    def keep(self, key: bytes, answer: KeptAnswer) -> None:
        """The request was done; whoever sends it again gets this answer."""
        digest = _digest(key)
        with self._database.transaction() as execute:
            execute("UPDATE idempotency_keys SET answer = ? WHERE digest = ?", (_sealed(key, answer), digest))
        self._running.discard(digest)

    def lose(self, key: bytes) -> None:
        """Leave open what came of the request, which nobody knows: it is not begun again under its key."""
        self._running.discard(_digest(key))

    def give_back(self, key: bytes) -> None:
        """The request changed nothing; it may be sent again."""
        self.lose(key)
        self._database.note(("DELETE FROM idempotency_keys WHERE digest = ?", (_digest(key),)))


def _digest(key: bytes) -> bytes:
    """Return what a key is stored as; it begins with the caller's own digest, so that the caller's keys are counted."""
    caller = key.partition(b"\n")[0]
    return sha256(b"caller" + caller).digest()[:_CALLER_BYTES] + sha256(b"digest" + key).digest()


def _sealed(key: bytes, answer: KeptAnswer) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # here: only who sends keys pays for it

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(sha256(b"seal" + key).digest()).encrypt(nonce, msgspec.msgpack.encode(answer), None)


def _opened(key: bytes, sealed: bytes) -> KeptAnswer:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    text = AESGCM(sha256(b"seal" + key).digest()).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    return msgspec.msgpack.decode(text, type=KeptAnswer)


@part
def kept_answers(services: Services) -> KeptAnswers:
    """Return the answers that are kept."""
    return KeptAnswers(control_database(services), services.store.steady_ms)
