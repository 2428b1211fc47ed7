"""Requests with a fetched token (OAuth 2 client credentials), and answers that are read whole, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, cast

import pytest

from hookline.bench.service import free_port
from hookline.connections.model import Destination
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send import tokens
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.pool import Exchanges, Pools
from hookline.deliver.send.port import Answer, Failure, Route, Sink
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.deliver.send.tokens import TokenKeeper, TokenRefused, TokenRoute, _Waiting, read_token
from hookline.kinds.model import Auth
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.conftest import MakeRig
from tests.unit.kinds.receiving import Sent, answer, deliver, destination_of

NO_TARGET = cast(Target, object())
REQUEST = b"POST /in HTTP/1.1\r\nHost: api\r\nContent-Length: 0\r\n\r\n"


class Results(Sink):
    """A sink that settles a future per request."""

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        cast("asyncio.Future[object]", token).set_result(failure or result)

    def answered_whole(self, token: object, target: Target, answer: Answer, milliseconds: int) -> None:
        cast("asyncio.Future[object]", token).set_result(answer)


class Api:
    """An API that gives out numbered tokens and takes requests with the ones that hold."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.taken: list[bytes] = []
        self.valid = 0
        self.token_answer: bytes | None = None
        self.body = b"{}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), 0)
                body = await reader.readexactly(length)
                status, answer = self.answer(head, body)
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(answer), answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        if head.startswith(b"POST /token"):
            self.asked.append(head + body)
            self.valid += 1
            made = b'{"access_token": "t%d", "token_type": "bearer", "expires_in": "3600"}' % self.valid
            return (b"200 OK", made) if self.token_answer is None else (b"400 No", self.token_answer)
        self.taken.append(head)
        return (b"200 OK", self.body) if b"Bearer t%d\r\n" % self.valid in head else (b"401 No", b"{}")


def play(scenario: Callable[[Api, TokenRoute, Callable[[], Awaitable[object]]], Awaitable[None]]) -> None:
    """Run a scenario against a real server; it gets the API, the route, and what sends one request by it."""

    async def played() -> None:
        api, port = Api(), free_port()
        resolver = Resolver(Guard(["127.0.0.0/8"]), lambda host, port: ["127.0.0.1"])
        results = Results()
        pools = Pools(results, resolver, tls_context(None))
        auth = Auth(
            type="oauth2", token_url=f"http://api.test:{port}/token", client_id="me", client_secret="s:x", scope="in"
        )
        keeper = TokenKeeper(auth, lambda: Exchanges(resolver, tls_context(None), 5.0), results)
        route = TokenRoute(pools.of(parse_receiver_url(f"http://api.test:{port}/in")), keeper)

        async def send() -> object:
            result: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            route.ask(NO_TARGET, [(result, REQUEST)], 100_000)
            return await asyncio.wait_for(result, 20)

        async with await asyncio.start_server(api.serve, "127.0.0.1", port):
            await scenario(api, route, send)
            pools.close()

    asyncio.run(played())


def with_tokens() -> Destination:
    """A destination whose requests come with a fetched token."""
    auth = {"type": "oauth2", "tokenUrl": "https://id.example.com/token", "clientId": "me", "clientSecret": "secret"}
    mapping = [{"name": "in", "url": "https://api.example.com/in", "body": {"event": {"@path": "$.event"}}}]
    return destination_of("http", {"auth": auth}, mapping=mapping)


def test_a_token_is_fetched_once_and_kept() -> None:
    """Three requests at once wait for one token; the client shows itself by HTTP Basic, its values encoded."""

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        answers = await asyncio.gather(send(), send(), send())
        assert [cast(Answer, each).status for each in answers] == [200, 200, 200]
        (asked,) = api.asked
        assert b"Authorization: Basic bWU6cyUzQXg=\r\n" in asked
        assert asked.endswith(b"grant_type=client_credentials&scope=in")
        assert all(b"\r\nAuthorization: Bearer t1\r\n" in head for head in api.taken)

    play(scenario)


def test_a_token_that_ended_is_fetched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a 401 the next request comes with another one."""
    monkeypatch.setattr(tokens, "RENEWED_AGAIN_SECONDS", 0.0)

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        await send()
        api.valid = 7  # the server has forgotten the token
        assert cast(Answer, await send()).status == 401
        assert route.unauthorized(0)
        assert cast(Answer, await send()).status == 200
        assert len(api.asked) == 2
        assert route._keeper.newest() == ("t8", "t1")

    play(scenario)


def test_a_token_that_is_new_is_what_the_receiver_refuses() -> None:
    """A 401 to it is final, but not one to a request that had left before it was there."""

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        await send()
        assert not route.unauthorized(0)
        assert route.unauthorized(60_000)
        await send()
        assert len(api.asked) == 1

    play(scenario)


def test_what_meets_an_ended_token_comes_with_another(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was in flight when the token was revoked is tried again, and comes with the new one."""

    def send(keeper: TokenKeeper, inner: Route, target: Target, requests: Any, whole: int) -> None:
        if not keeper._line:
            # As the real one, without the server of tokens.
            keeper._line = b"Authorization: Bearer t%d\r\n" % len(keys)
        keeper._pass_on(_Waiting(inner, target, requests, whole, 0.0))

    def receiver(sent: Sent) -> Answer:
        if len(asked) == 2:
            keys.append("t2")
        asked.append(sent.headers["authorization"].removeprefix("Bearer "))
        return answer(200 if asked[-1] == keys[-1] else 401)

    keys, asked = ["t1"], list[str]()
    monkeypatch.setattr(TokenKeeper, "send", send)
    rig = make_rig()
    calls = [{"type": "track", "userId": "u1", "event": f"e{number}"} for number in range(6)]
    deliver(rig, with_tokens(), receiver, calls)
    assert sorted(asked) == ["t1"] * 6 + ["t2"] * 4
    assert rig.dead_letters() == []


def test_a_token_that_a_receiver_sends_back_is_masked(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """In what attempts keep of its answer, as one that stands in the settings is."""
    monkeypatch.setattr(TokenKeeper, "send", lambda self, inner, *request: inner.send(*request[:2]))
    monkeypatch.setattr(TokenKeeper, "newest", lambda self: ("eyJhbGciOiJSUzI1NiJ9.signed",))
    refusal = answer(400, b"you sent Bearer eyJhbGciOiJSUzI1NiJ9.signed")
    rig = make_rig()
    deliver(rig, with_tokens(), lambda sent: refusal, [{"type": "track", "userId": "u", "event": "e"}])
    (attempt,) = rig.event("message-0").destinations[0].attempts
    assert attempt.error is not None
    assert attempt.error.startswith("you sent Bearer ")
    assert "signed" not in attempt.error


def test_a_token_that_still_holds_is_used_where_its_renewal_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is renewed a minute early so that one failure costs nothing; the next try waits for a moment."""
    monkeypatch.setattr(tokens, "EARLY_SHARE", 1.0)
    monkeypatch.setattr(tokens, "EARLY_SECONDS_MAX", 3_600.0)  # it is due to be renewed at once

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        assert cast(Answer, await send()).status == 200
        api.token_answer = b"later"
        api.valid = 0  # counts those who ask: the first token stays the one that holds
        assert cast(Answer, await send()).status == 200
        assert cast(Answer, await send()).status == 200
        assert len(api.asked) == 2
        monkeypatch.setattr(tokens, "monotonic", lambda: monotonic() + 3_601)
        failure = cast(Failure, await send())
        assert "no token from api.test" in failure.error

    play(scenario)


def test_without_a_token_requests_fail_and_are_not_sent() -> None:
    """The failure names the server of tokens and what it said; it can be tried again."""

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        api.token_answer = b'{"error": "invalid_client"}'
        failure = cast(Failure, await send())
        assert failure.outcome is Outcome.CONNECTION_FAILED
        assert failure.error == 'no token from api.test: it answered 400 {"error": "invalid_client"}'
        assert failure.is_unsent
        assert api.taken == []
        api.token_answer = None
        assert cast(Answer, await send()).status == 200

    play(scenario)


def test_whatever_goes_wrong_on_the_way_to_a_token_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of certificates that cannot be read, say: what waits is tried again, and so is the token."""

    def unreadable(*_: object) -> bytes:
        raise FileNotFoundError("ca.pem")

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(tokens, "token_request", unreadable)
            failure = cast(Failure, await send())
        assert failure.outcome is Outcome.CONNECTION_FAILED
        assert failure.error == "no token from api.test: FileNotFoundError: ca.pem"
        assert cast(Answer, await send()).status == 200

    play(scenario)


def test_an_answer_nested_without_end_holds_no_token() -> None:
    """It ends neither the process nor the tries."""
    exchange = Exchange()
    exchange.status, exchange.body = 200, b'{"a":' + b"[" * 60_000
    with pytest.raises(TokenRefused):
        read_token(exchange)


@pytest.mark.parametrize("size", [10, 70_000, 250_000])
def test_an_answer_is_read_whole_up_to_its_bound(size: int) -> None:
    """What was asked for is handed over, and no more of a longer answer; the connection is used again if it can be."""

    async def scenario(api: Api, route: TokenRoute, send: Callable[[], Awaitable[object]]) -> None:
        api.body = b"x" * size
        for _ in range(2):
            answer = cast(Answer, await send())
            assert (answer.status, len(answer.body)) == (200, min(size, 100_000))

    play(scenario)
