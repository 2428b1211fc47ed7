"""The resolver: one look-up, every address checked, nothing blocked by what hangs."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from hookline.bench.service import free_port
from hookline.deliver.send import resolver as egress
from hookline.deliver.send.resolver import BlockedAddress, Guard, NameNotResolved, Resolver
from hookline.limits import Limits
from tests.service.waiting import wait_until


def public_only() -> Guard:
    """A guard without exceptions, blind to this machine's addresses."""
    return Guard((), lambda address: False)


class Names:
    """A look-up that answers from a script and counts how often it was asked."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = itertools.cycle(answers)
        self.asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return next(self.answers)


def resolve(resolver: Resolver, host: str) -> list[str]:
    """Resolve in a loop of its own."""
    return asyncio.run(resolver.resolve(host, 443))


def test_addresses_come_in_the_order_of_the_system() -> None:
    """What the look-up prefers comes first."""
    names = Names(["2606:4700::1", "1.1.1.1", "1.0.0.1"])
    assert resolve(Resolver(public_only(), names), "example.com") == ["2606:4700::1", "1.1.1.1", "1.0.0.1"]


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["1.1.1.1", "::ffff:127.0.0.1"], ["1.1.1.1"] * 50 + ["::1"]]
)
def test_one_refused_address_blocks_the_name(answer: list[str]) -> None:
    """A name with a public and a private address is not used at all, wherever the private one stands."""
    with pytest.raises(BlockedAddress, match=r"example\.com: .* is not a public address"):
        resolve(Resolver(public_only(), Names(answer)), "example.com")


def test_a_literal_is_checked_without_a_look_up() -> None:
    """An IP address as host goes through the guard and never to DNS."""
    names = Names(["1.1.1.1"])
    resolver = Resolver(public_only(), names)
    assert resolve(resolver, "9.9.9.9") == ["9.9.9.9"]
    with pytest.raises(BlockedAddress, match=r"169\.254\.169\.254"):
        resolve(resolver, "169.254.169.254")
    assert names.asked == 0


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.1", "017700000001"])
def test_what_the_system_itself_reads_as_loopback_is_blocked(host: str) -> None:
    """The real look-up understands more spellings than the parser lets through; the guard sees their meaning."""
    with pytest.raises(BlockedAddress):
        resolve(Resolver(public_only()), host)


@pytest.mark.parametrize("host", ["metadata.google.internal", "db.internal", "metadata", "a.metadata", "X.INTERNAL."])
def test_inside_names_are_not_even_looked_up(host: str) -> None:
    """Without exceptions no query about the inside leaves the process."""
    names = Names(["1.1.1.1"])
    with pytest.raises(BlockedAddress, match="inside name"):
        resolve(Resolver(public_only(), names), host)
    assert names.asked == 0


def test_an_inside_name_works_only_with_addresses_that_are_exceptions() -> None:
    """With allow_networks an inside name may mean an allowed address, but not a public one."""
    guard = Guard(["10.0.0.0/8"], lambda address: False)
    assert resolve(Resolver(guard, Names(["10.0.0.5"])), "db.internal") == ["10.0.0.5"]
    with pytest.raises(BlockedAddress, match="inside name"):
        resolve(Resolver(guard, Names(["1.1.1.1"])), "db.internal")


def test_a_name_without_an_address_is_not_resolved() -> None:
    """The real look-up of a name that cannot exist, and an empty answer, raise the same error."""
    with pytest.raises(NameNotResolved, match="xxx: "):
        resolve(Resolver(public_only()), "x" * 64)  # longer than a label may be: refused without a query
    with pytest.raises(NameNotResolved, match="no address"):
        resolve(Resolver(public_only(), Names([])), "example.com")


def test_an_old_answer_serves_while_it_is_renewed() -> None:
    """Fresh, it is not asked for again; then requests go on with it until there is a new one, but not for ever."""
    now, names = [0.0], Names(["1.1.1.1"], ["9.9.9.9"], ["8.8.8.8"])

    async def scenario() -> None:
        resolver = Resolver(public_only(), names, lambda: now[0])
        for now[0] in (0.0, egress.FRESH_SECONDS - 1):
            assert await resolver.resolve("example.com", 443) == ["1.1.1.1"]
        assert names.asked == 1
        now[0] = egress.FRESH_SECONDS
        assert await resolver.resolve("example.com", 443) == ["1.1.1.1"]
        await _renewed(resolver)
        assert await resolver.resolve("example.com", 443) == ["9.9.9.9"]
        now[0] += egress.KEPT_SECONDS
        assert await resolver.resolve("example.com", 443) == ["8.8.8.8"]

    asyncio.run(scenario())
    assert names.asked == 3


def test_a_look_anew_does_not_take_an_old_answer() -> None:
    """Who asks where a name leads now waits for the answer."""
    now, names = [0.0], Names(["1.1.1.1"], ["9.9.9.9"])

    async def scenario() -> None:
        resolver = Resolver(public_only(), names, lambda: now[0])
        await resolver.resolve("example.com", 443)
        now[0] = egress.FRESH_SECONDS
        assert await resolver.resolve("example.com", 443, anew=True) == ["9.9.9.9"]

    asyncio.run(scenario())


def test_an_answer_that_led_nowhere_is_not_used_again() -> None:
    """Unless it is young: a receiver that is down costs a look-up now and then, not one for each request."""
    now, names = [0.0], Names(["1.1.1.1"], ["9.9.9.9"])

    async def scenario() -> None:
        resolver = Resolver(public_only(), names, lambda: now[0])
        for now[0], address in ((0.0, "1.1.1.1"), (9.0, "1.1.1.1"), (10.0, "1.1.1.1"), (10.0, "9.9.9.9")):
            assert await resolver.resolve("example.com", 443) == [address]
            resolver.led_nowhere("example.com")

    asyncio.run(scenario())


def test_a_renewed_answer_is_checked_like_the_first() -> None:
    """A name that turns to the inside is blocked as soon as its answer is renewed, and its old answer is gone."""
    now, names = [0.0], Names(["1.1.1.1"], ["10.0.0.5"], ["10.0.0.5"])

    async def scenario() -> None:
        resolver = Resolver(public_only(), names, lambda: now[0])
        await resolver.resolve("example.com", 443)
        now[0] = egress.FRESH_SECONDS
        await resolver.resolve("example.com", 443)
        await _renewed(resolver)
        with pytest.raises(BlockedAddress):
            await resolver.resolve("example.com", 443)

    asyncio.run(scenario())


async def _renewed(resolver: Resolver) -> None:
    await asyncio.wait(list(resolver._under_way.values()), timeout=30)
    await asyncio.sleep(0)


def test_many_waiters_share_one_look_up() -> None:
    """A hundred requests for one name at once ask once."""
    names = Names(["1.1.1.1"])

    async def all_at_once() -> list[list[str]]:
        resolver = Resolver(public_only(), names)
        return await asyncio.gather(*(resolver.resolve("example.com", 80) for _ in range(100)))

    assert asyncio.run(all_at_once()) == [["1.1.1.1"]] * 100
    assert names.asked == 1


def test_hung_look_ups_end_in_time_and_leave_room_for_healthy_names() -> None:
    """Names that hang give up at the deadline; known to hang, they take at most their quarter of the threads."""
    release, hanging = threading.Event(), []

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("hung"):
            hanging.append(host)
            release.wait(60)
            raise OSError("gave up")
        return ["1.1.1.1"]

    async def scenario() -> None:
        resolver = Resolver(public_only(), lookup, limits=Limits(lookup_seconds_max=2.0))
        for number in range(40):
            resolver._doubt(f"hung{number}")
        hung = [resolver.resolve(f"hung{number}", 80) for number in range(40)]
        results = await asyncio.gather(*hung, return_exceptions=True)
        assert all(isinstance(result, NameNotResolved) for result in results)
        wait_until(lambda: len(hanging) >= egress.DOUBTFUL_LOOKUPS_MAX)
        assert await resolver.resolve("healthy", 80) == ["1.1.1.1"]

    try:
        asyncio.run(scenario())
    finally:
        release.set()
    assert len(hanging) == egress.DOUBTFUL_LOOKUPS_MAX


@pytest.mark.parametrize("count", [60, 190])
def test_new_names_that_hang_do_not_hold_up_another_new_one(count: int) -> None:
    """Sixty, or nearly two hundred, destinations begin with names that do not resolve: one behind them is looked up
    before any of them has failed."""
    release = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("hung"):
            release.wait(60)
            raise OSError("gave up")
        return ["1.1.1.1"]

    async def scenario() -> None:
        resolver = Resolver(public_only(), lookup, limits=Limits(lookup_seconds_max=60.0))
        hung = [asyncio.ensure_future(resolver.resolve(f"hung{number}", 80)) for number in range(count)]
        await asyncio.sleep(0)
        assert await resolver.resolve("healthy", 80) == ["1.1.1.1"]
        assert not any(each.done() for each in hung)
        release.set()
        await asyncio.gather(*hung, return_exceptions=True)

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_names_that_had_an_address_wait_for_no_new_ones() -> None:
    """However many new names hang, more than there are threads: a known one is looked up at once."""
    release, now = threading.Event(), [0.0]

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("hung"):
            release.wait(60)
            raise OSError("gave up")
        return ["1.1.1.1"]

    async def scenario() -> None:
        resolver = Resolver(public_only(), lookup, lambda: now[0], Limits(lookup_seconds_max=20.0))
        await resolver.resolve("known", 80)
        count = egress.NEW_LOOKUPS_MAX + 20
        hung = [asyncio.ensure_future(resolver.resolve(f"hung{number}", 80)) for number in range(count)]
        for _ in range(200):
            await asyncio.sleep(0.01)
            if resolver._new_threads.locked():
                break
        assert resolver._new_threads.locked()
        now[0] += egress.KEPT_SECONDS
        assert await resolver.resolve("known", 80) == ["1.1.1.1"]
        assert not any(each.done() for each in hung)
        release.set()
        await asyncio.gather(*hung, return_exceptions=True)

    try:
        asyncio.run(scenario())
    finally:
        release.set()


class SilentServer:
    """A look-up of names that all have an address until the name server of those that begin with ``dead`` is silent."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_silent = False
        self.back = threading.Event()
        self.asked: Counter[str] = Counter()
        self.resolver = Resolver(public_only(), self, lambda: self.now)

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked[host] += 1
        if self.is_silent and host.startswith("dead"):
            self.back.wait(60)
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return ["1.1.1.1"]

    async def renew(self, names: list[str]) -> None:
        """Ask for names whose answers are due for renewal, and wait until all of them are being looked up."""
        for name in names:
            await self.resolver.resolve(name, 80)
        while not all(name in self.resolver._begun for name in names):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)

    async def fall_silent(self, names: list[str]) -> None:
        """Know the names and a healthy one, let the server fall silent, and wait until each of its names hangs."""
        for name in (*names, "healthy"):
            await self.resolver.resolve(name, 80)
        self.is_silent = True
        self.now += egress.FRESH_SECONDS
        self.asked.clear()
        async with asyncio.timeout(50):
            await self.renew(names)


DEAD = [f"dead{number}" for number in range(10 * egress.KNOWN_PLACES)]
"""Names of one silent name server: far more than are begun at a time."""


def test_known_names_that_hang_do_not_hold_up_another_known_one() -> None:
    """Their name server is silent: each hangs in one thread however often it is asked for, and one with another name
    server is looked up before any of them has failed."""
    server = SilentServer()

    async def scenario() -> None:
        await server.fall_silent(DEAD)
        server.now += egress.KEPT_SECONDS
        again = [asyncio.ensure_future(server.resolver.resolve(name, 80)) for name in DEAD]
        assert await server.resolver.resolve("healthy", 80) == ["1.1.1.1"]
        assert server.asked == Counter([*DEAD, "healthy"])
        assert not server.back.is_set()
        server.back.set()
        await asyncio.gather(*again, return_exceptions=True)

    try:
        asyncio.run(scenario())
    finally:
        server.back.set()


def test_a_known_name_that_hung_waits_for_others_like_it_the_next_time() -> None:
    """Its first look-up has a known name's room, those after it have none until it has an address again."""
    server = SilentServer()

    async def scenario() -> None:
        await server.fall_silent(DEAD)
        server.now += egress.KEPT_SECONDS
        server.back.set()
        await asyncio.gather(*server.resolver._under_way.values(), return_exceptions=True)
        server.back.clear()
        again = [asyncio.ensure_future(server.resolver.resolve(name, 80)) for name in DEAD]
        async with asyncio.timeout(50):
            while not server.resolver._doubtful_threads.locked():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)
        assert len(server.resolver._begun) == egress.DOUBTFUL_LOOKUPS_MAX
        server.is_silent = False
        server.back.set()
        await asyncio.gather(*again, return_exceptions=True)
        await asyncio.gather(*(server.resolver.resolve(name, 80) for name in DEAD))
        assert not server.resolver._doubtful

    try:
        asyncio.run(scenario())
    finally:
        server.back.set()


def test_the_threads_of_known_names_that_hang_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a name waits, with its old answer at hand; where few files may be open the bound is lower."""
    monkeypatch.setattr(egress, "open_files_max", lambda: 4 * egress.KNOWN_FILES_SHARE)
    server = SilentServer()

    async def scenario() -> None:
        await server.fall_silent(DEAD[:4])
        assert await server.resolver.resolve("healthy", 80) == ["1.1.1.1"]
        await asyncio.sleep(0)
        assert server.resolver._known_threads.locked()
        assert server.asked["healthy"] == 0
        server.back.set()
        await asyncio.gather(*server.resolver._under_way.values(), return_exceptions=True)
        assert server.asked["healthy"] == 1

    try:
        asyncio.run(scenario())
    finally:
        server.back.set()


@pytest.mark.parametrize(("seconds", "is_doubtful"), [(0.0, False), (egress.HUNG_SECONDS, True)])
def test_only_a_failure_that_took_long_makes_a_name_doubtful(seconds: float, is_doubtful: bool) -> None:
    """One that failed at once holds no thread to speak of: it need not wait behind names that hang."""
    now = [0.0]

    def lookup(host: str, port: int) -> list[str]:
        now[0] += seconds
        raise socket.gaierror(-2, "Name or service not known")

    async def scenario() -> set[str]:
        resolver = Resolver(public_only(), lookup, lambda: now[0])
        with pytest.raises(NameNotResolved, match="not known"):
            await resolver.resolve("example.com", 80)
        return set(resolver._doubtful)

    assert asyncio.run(scenario()) == ({"example.com"} if is_doubtful else set())


def test_a_machine_that_gives_no_thread_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once there is one, and is not taken for one that hangs."""
    start, refusals = threading.Thread.start, iter([True] * 3)

    def refuse(thread: threading.Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    names = Names(["1.1.1.1"])
    resolver = Resolver(public_only(), names)
    assert resolve(resolver, "example.com") == ["1.1.1.1"]
    assert names.asked == 1
    assert next(refusals, None) is None
    assert not resolver._doubtful


def test_a_name_that_only_waited_is_not_taken_for_one_that_hangs() -> None:
    """A look-up that could not begin in time says nothing of its name."""
    release = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        release.wait(60)
        return ["1.1.1.1"]

    async def scenario() -> set[str]:
        resolver = Resolver(public_only(), lookup, limits=Limits(lookup_seconds_max=0.5))
        resolver._new_threads = asyncio.Semaphore(1)
        await asyncio.gather(*(resolver.resolve(name, 80) for name in ("first", "second")), return_exceptions=True)
        release.set()
        return set(resolver._doubtful)

    assert asyncio.run(scenario()) == {"first"}


def test_too_many_waiting_names_are_turned_away() -> None:
    """The queue of look-ups is bounded; what does not fit is tried again later like any failed look-up."""

    async def scenario() -> list[object]:
        resolver = Resolver(public_only(), Names(["1.1.1.1"]), limits=Limits(lookups_waiting_max=2))
        return list(await asyncio.gather(*(resolver.resolve(n, 80) for n in "abc"), return_exceptions=True))

    found = asyncio.run(scenario())
    assert found[:2] == [["1.1.1.1"]] * 2
    assert isinstance(found[2], NameNotResolved)


@pytest.fixture
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A receiver on 127.0.0.2 and a canary on 127.0.0.1, at one port."""
    port = free_port()
    with (
        socket.create_server(("127.0.0.2", port), backlog=2_048) as receiver,
        socket.create_server(("127.0.0.1", port)) as canary,
    ):
        canary.setblocking(False)
        yield receiver, canary


def test_rebinding_never_reaches_the_canary(listeners: tuple[socket.socket, socket.socket]) -> None:
    """A thousand answers that alternate between an allowed and a refused address: only the checked one is contacted."""
    receiver, canary = listeners
    port = receiver.getsockname()[1]
    names = Names(["127.0.0.2"], ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"])
    ticks = itertools.count(0, 60)
    guard = Guard(["127.0.0.2/32"], lambda address: False)

    async def scenario() -> tuple[int, int]:
        resolver, contacted, blocked = Resolver(guard, names, lambda: next(ticks)), 0, 0
        for _ in range(1_000):
            try:
                for address in await resolver.resolve("rebind.example", port):
                    socket.create_connection((address, port)).close()
                    contacted += 1
            except BlockedAddress:
                blocked += 1
        return contacted, blocked

    contacted, blocked = asyncio.run(scenario())
    assert (contacted, blocked) == (334, 666)
    assert names.asked == 1_000
    with pytest.raises(BlockingIOError):
        canary.accept()
