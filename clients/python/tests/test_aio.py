"""The client for asyncio: nothing in it stops the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gate_transport import GateTransport
from hookline_client import AsyncClient, Client, InvalidOption, flush_after, module
from hookline_client.testing import RecordingTransport
from scripted_service import Reply, ScriptedService


def test_calls_flush_and_close() -> None:
    """The same verbs; only what waits is awaited."""
    transport = RecordingTransport()

    async def main() -> None:
        async with AsyncClient("wk", transport=transport) as client:
            client.identify("u", {"plan": "pro"})
            message_id = client.track({"userId": "u", "event": "E"})
            assert (await client.flush()).accepted == 2
            assert transport.events[1]["messageId"] == message_id
            client.page("u", "Home")
        assert client.track("u", "Late") is None
        assert client.stats.accepted == 3

    asyncio.run(main())


def test_the_loop_runs_while_the_service_hangs() -> None:
    """Calls return, a flush gives up in time, and others go on meanwhile."""

    async def main() -> None:
        with ScriptedService(Reply(fault="hang")) as service:
            client = AsyncClient("wk", endpoint=service.url, flush_at=1)
            client.track("u", "E")
            flush = asyncio.ensure_future(client.flush(0.2))
            turns = 0
            while not flush.done():
                turns += 1
                await asyncio.sleep(0)
            assert turns > 1
            assert (await flush).waiting == 1
            assert (await client.close(0.05)).dropped == 1

    asyncio.run(main())


def test_a_cancelled_flush_leaves_the_news_to_the_next() -> None:
    """Nothing is lost with it."""
    transport = GateTransport()

    async def main() -> None:
        client = AsyncClient("wk", transport=transport, flush_at=1)
        client.track("u", "E")
        flush = asyncio.ensure_future(client.flush(30))
        await asyncio.sleep(0)
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        transport.open()
        assert (await client.flush(30)).accepted == 1

    asyncio.run(main())


def test_a_consumer_that_raises_does_not_hang_the_caller() -> None:
    """What one of the program's own raises in a flush is raised there, and nobody waits for ever."""

    class Wrong:
        def flush(self, timeout: float) -> int:
            raise OSError("wrong")

        def close(self, timeout: float) -> int:
            return 0

    async def main() -> None:
        client = AsyncClient("wk", consumer=lambda options, ledger: Wrong())  # type: ignore[arg-type, return-value]
        with pytest.raises(OSError, match="wrong"):
            await asyncio.wait_for(client.flush(), 30)

    asyncio.run(main())


def test_a_handler_that_is_cancelled_does_not_hang_the_caller() -> None:
    """It is called where ``close`` runs, which is no task: the loss is counted, and ``close`` returns."""
    transport = GateTransport(deaf=True)

    def cancel(code: str, message: str) -> None:
        raise asyncio.CancelledError

    async def main() -> int:
        client = AsyncClient("key", transport=transport, batch_size=1, flush_at=1, error_handler=cancel)
        client.track("u1", "Under way")
        assert transport.entered.wait(30)
        client.track("u1", "Dropped")
        return (await asyncio.wait_for(client.close(0), 30)).dropped

    assert asyncio.run(main()) == 1
    transport.open()


def test_many_tasks_lose_nothing() -> None:
    """A thousand at once."""
    transport = RecordingTransport()

    async def main() -> None:
        client = AsyncClient("wk", transport=transport)

        async def work(number: int) -> str | None:
            await asyncio.sleep(0)
            return client.track("u", f"E{number}")

        ids = await asyncio.gather(*(work(number) for number in range(1000)))
        assert (await client.flush(30)).accepted == 1000
        assert sorted(event["messageId"] for event in transport.events) == sorted(filter(None, ids))

    asyncio.run(main())


def test_one_client_in_several_loops() -> None:
    """It belongs to none of them."""
    transport = RecordingTransport()
    client = AsyncClient("wk", transport=transport)

    async def one() -> int:
        client.track("u", "E")
        return (await client.flush()).accepted

    assert [asyncio.run(one()) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("options", [{"on_full": "block"}, {"consumer": "socket"}])
def test_what_would_stop_the_loop_is_refused(options: dict[str, Any]) -> None:
    """When the client is made."""
    with pytest.raises(InvalidOption, match="loop"):
        AsyncClient("wk", **options)


def test_debug_only_logs(caplog: pytest.LogCaptureFixture) -> None:
    """It does not wait in the call, as it does in a plain client."""
    transport = GateTransport()
    client = AsyncClient("wk", transport=transport, debug=True)
    client.track("u", "E")
    assert '"event":"E"' in caplog.text
    transport.open()


def test_handlers_of_serverless_functions_flush_at_their_end() -> None:
    """Plain and coroutine functions, with a client, an AsyncClient and the client of init; when they raise, too."""
    plain, later, own = RecordingTransport(), RecordingTransport(), RecordingTransport()
    client, async_client = Client("wk", transport=plain), AsyncClient("wk", transport=later)
    module.init("wk", transport=own)

    @flush_after(client)
    def handle(event: str) -> str:
        client.track("u", event)
        if event == "Bad":
            raise KeyError(event)
        return event

    @flush_after(async_client)
    async def handle_later(event: str) -> str:
        async_client.track("u", event)
        return event

    @flush_after()
    async def handle_own(event: str) -> None:
        module.track("u", event)

    assert handle("Good") == "Good"
    with pytest.raises(KeyError):
        handle("Bad")
    assert asyncio.run(handle_later("Later")) == "Later"
    asyncio.run(handle_own("Own"))
    module.close()
    names = [[event["event"] for event in transport.events] for transport in (plain, later, own)]
    assert names == [["Good", "Bad"], ["Later"], ["Own"]]
    assert handle.__name__ == "handle"


def test_a_serverless_handler_is_not_held_up() -> None:
    """By a service that hangs, for longer than the decorator says."""
    transport = GateTransport()
    client = Client("wk", transport=transport)

    @flush_after(client, timeout=0.05)
    def handle() -> None:
        client.track("u", "E")

    handle()
    assert transport.batches == []
    transport.open()
    assert client.flush().accepted == 1


def test_an_async_client_needs_a_coroutine_function() -> None:
    """Told when the handler is decorated, not when it is called."""
    with pytest.raises(TypeError):
        flush_after(AsyncClient("wk", transport=RecordingTransport()))(threading.active_count)


def test_a_copy_of_a_process_makes_ids_of_its_own() -> None:
    """A snapshot of a serverless function holds the random bits of before."""
    from hookline_client import identifiers

    before = identifiers.message_id(1)

    @flush_after(Client("wk", transport=RecordingTransport()))
    def handle() -> str:
        return identifiers.message_id(1)

    assert handle().split("-")[1] != before.split("-")[1]
    assert handle().split("-")[1] == handle().split("-")[1]
