"""The real processes under the same conversations: they live through them, and nothing accepted is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.cases import Cases
from tests.fuzz.mutations import in_pieces
from tests.fuzz.receiver_answers import answer
from tests.fuzz.requests import request
from tests.fuzz.wire_answers import read_answers
from tests.service.deliver.hostile import Connection, HostileReceiver
from tests.service.harness import SOURCE, Hookline, Receiver, wait_until, webhook
from tests.unit.collect.wire import KEY

CASES = 200
ANSWER_SECONDS_MAX = 20.0
DESTINATIONS = 20


def talk(port: int, random: Random) -> None:
    """One conversation with the collection port."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as client:
        try:
            for piece in in_pieces(random, b"".join(request(random).data for _ in range(random.choice((1, 2, 4))))):
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused and closed before all was said
        said = b""
        try:
            while more := client.recv(65_536):
                said += more
        except ConnectionResetError:
            return  # an answer may be lost with what was still on its way
    assert 500 not in {found.status for found in read_answers(said)}


def answering(seed: int) -> Callable[[Connection], None]:
    """Answer requests as no client library would like it; often with success, so that breakers stay closed."""
    lock, random = threading.Lock(), Random(seed)

    def behave(connection: Connection) -> None:
        while True:
            connection.read_request()
            with lock:
                given = answer(random)
                pieces = in_pieces(random, given.data)
            for piece in pieces:
                connection.send(piece)
            if given.status is None:
                return

    return behave


def test_the_processes_live_through_it(cases: Cases, tmp_path: Path) -> None:
    """The same three processes as before, every sound event in between delivered, no traceback in the log."""
    source = {**SOURCE, "writeKeys": [*SOURCE["writeKeys"], KEY]}
    with Receiver() as receiver, HostileReceiver(answering(cases.seed)) as hostile:
        fuzzed = [webhook(f"fuzzed{number}", hostile.url(f"/{number}")) for number in range(DESTINATIONS)]
        with Hookline(tmp_path, [webhook("healthy", receiver.url()), *fuzzed], sources=[source]) as hookline:
            before = {role: hookline.role(role) for role in ("collect", "deliver", "control")}
            sound: list[str] = []

            def case(random: Random) -> None:
                talk(hookline.collect_port, random)
                sound.append(hookline.track())

            number = cases.run("living", CASES, case)
            print(f"{number} conversations")
            receiver.wait_for(sound[-1])
            wait_until(lambda: set(sound) <= receiver.message_ids, what="all sound events")
            assert len(hostile.requests) > 3 * DESTINATIONS  # breakers open now and then
            assert {role: hookline.role(role) for role in before} == before
        assert "Traceback" not in hookline.log
