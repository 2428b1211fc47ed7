"""Thousands of tries to lead the sender to an address it may not contact, and a canary that listens there."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import Iterator
from random import Random

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.resolver import BlockedAddress, Guard, Lookup, NameNotResolved, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.canary import ALLOWED, Canary
from tests.unit.deliver.test_egress_guard import v4_spellings, v6_spellings
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results

SPELLINGS = 2_000
REBINDING_TRIES = 2_000
NAMES_AT_ONCE = 50
OPEN = ("0.0.0.0/0", "::/0")
"""A guard that lets everything pass: the control."""
INSIDE = ("127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::ffff:127.0.0.1", "::", "::ffff:7f00:1")
TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SECONDS_MAX = 60.0


def spellings(random: Random) -> Iterator[str]:
    """Hosts that somebody reads as an address of this machine, each once."""
    loopback = (f"127.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}" for _ in range(99))
    yield from (
        "localhost",
        "LOCALHOST",
        "localhost.",
        "\uff4c\uff4f\uff43\uff41lhost",
        socket.gethostname(),
        "0",
        "127.1",
    )
    yield from (f"[{address}]" for address in ("::1", "::", "0:0:0:0:0:0:0:1", "::0001", "fe80::1%lo", "::1%1"))
    for address in ("127.0.0.1", "0.0.0.0", *loopback):
        yield from v4_spellings(address)
        yield from (f"[{spelling}]" for spelling in v6_spellings(address))


def as_numbers(host: str, port: int) -> list[str]:
    """What the system's own look-up reads as an address, however it is written; it asks no DNS server."""
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(entry[4][0]) for entry in found]


async def send(pools: Pools, urls: list[str]) -> Counter[Outcome]:
    """Send one request to each URL, all at once."""
    results: list[asyncio.Future[Outcome]] = []
    for url in urls:
        results.append(asyncio.get_running_loop().create_future())
        pools.of(parse_receiver_url(url)).send(NO_TARGET, [(results[-1], REQUEST)])
    return Counter(await asyncio.wait_for(asyncio.gather(*results), SECONDS_MAX))


async def connect(resolver: Resolver, host: str, port: int) -> bool:
    """Connect to what the resolver gives out for a host that no parser has seen; whether that was anything."""
    try:
        addresses = await resolver.resolve(host.strip("[]"), port)
    except (BlockedAddress, NameNotResolved):
        return False
    for address in addresses:
        try:
            _, writer = await asyncio.open_connection(address, port)
        except OSError:
            continue
        writer.close()
    return True


async def try_spellings(guard: Guard, tried: list[str]) -> list[str]:
    """Lead the sender, and the resolver alone, to the canary; return what the canary has seen."""
    async with Canary(lambda: TAKEN) as canary:
        pools = Pools(Results(), Resolver(guard), tls_context(None))
        resolver = Resolver(guard, as_numbers)
        for host in tried:
            await connect(resolver, host, canary.port)
            try:
                url = f"http://{host}:{canary.port}/"
                parse_receiver_url(url)
            except ValueError:
                continue
            await send(pools, [url])
        pools.close()
        return canary.hits


def test_two_thousand_spellings_never_reach_the_canary() -> None:
    """However this machine's addresses are written: refused by the parser, or by the guard behind it."""
    tried = list(itertools.islice(dict.fromkeys(spellings(Random(0))), SPELLINGS))
    assert len(tried) == SPELLINGS
    assert asyncio.run(try_spellings(Guard(()), tried)) == []


def test_without_the_guard_the_same_spellings_do_reach_it() -> None:
    """The control: most of the IPv4 ones are read as an address by the system, and lead there."""
    tried = [host for host in itertools.islice(spellings(Random(0)), SPELLINGS) if not host.startswith("[")][:400]
    assert len(asyncio.run(try_spellings(Guard(OPEN), tried))) > 200


def rebinding(random: Random) -> Lookup:
    """A DNS server that gives the allowed address, an inside one, or several, anew with each question."""

    def lookup(host: str, port: int) -> list[str]:
        answer = [random.choice((ALLOWED, *INSIDE)) for _ in range(random.choice((1, 1, 1, 2, 5)))]
        return [ALLOWED] * len(answer) if random.random() < 0.4 else answer

    return lookup


async def try_rebinding(guard: Guard, tries: int) -> tuple[Counter[Outcome], Canary]:
    """Requests to names whose addresses change, some answered by a redirect to the inside, some on kept connections."""
    random, seconds = Random(0), itertools.count(0, 4)

    def answer() -> bytes:
        redirect = b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % canary.port
        closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        return random.choice((TAKEN, closing, redirect))

    found: Counter[Outcome] = Counter()
    async with Canary(answer) as canary:
        pools = Pools(Results(), Resolver(guard, rebinding(random), lambda: next(seconds)), tls_context(None))
        urls = [f"http://rebind{number}.example:{canary.port}/" for number in range(NAMES_AT_ONCE)]
        for _ in range(tries // NAMES_AT_ONCE):
            found += await send(pools, urls)
        pools.close()
    return found, canary


def test_two_thousand_rebinding_tries_never_reach_the_canary() -> None:
    """Whatever DNS answers, a request goes to an address that was checked, or nowhere."""
    found, canary = asyncio.run(try_rebinding(Guard([f"{ALLOWED}/32"]), REBINDING_TRIES))
    assert canary.hits == []
    assert found.total() == REBINDING_TRIES
    assert found.keys() == {Outcome.SUCCESS, Outcome.REFUSED, Outcome.BLOCKED_ADDRESS}
    assert found[Outcome.SUCCESS] + found[Outcome.REFUSED] == canary.answered
    assert min(found.values()) > REBINDING_TRIES / 20


def test_without_the_guard_rebinding_does_reach_it() -> None:
    """The control: the same answers lead to the canary when nothing is checked."""
    _, canary = asyncio.run(try_rebinding(Guard(OPEN), 200))
    assert len(canary.hits) > 20
