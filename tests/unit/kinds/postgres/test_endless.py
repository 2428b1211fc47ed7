"""A server that answers without end is refused with a sentence, and takes little memory; large answers are read."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.kinds.answers import ACCEPTED
from hookline.kinds.postgres import bounded
from hookline.kinds.sink import SinkFailed
from tests.unit.kinds.endless import MEMORY_MB_MAX, send_without_end, served, used
from tests.unit.kinds.postgres.warehouse import Warehouse, event

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked how much came")

HUGE = 2**30 - 8
"""The longest message that libpq takes, nearly."""


def message(kind: bytes, body: bytes, length: int | None = None) -> bytes:
    return kind + struct.pack("!I", (len(body) if length is None else length) + 4) + body


WELCOME = message(b"R", struct.pack("!I", 0))
COLUMNS = message(b"T", struct.pack("!H", 1) + b"x\0" + struct.pack("!IHIHiH", 0, 0, 25, 65_535, -1, 0))
NOTICES = message(b"N", b"SNOTICE\0M" + b"x" * 20_000 + b"\0\0") * 50
READY = message(b"Z", b"I")
PARAMETERS = b"".join(
    message(b"S", name + b"\0" + value + b"\0")
    for name, value in ((b"server_encoding", b"UTF8"), (b"client_encoding", b"UTF8"))
)
FLOODS = {
    "rows": (COLUMNS, message(b"D", struct.pack("!HI", 1, 1_000_000) + b"x" * 1_000_000)),
    "one row": (COLUMNS + message(b"D", b"", HUGE), b"x" * 1_000_000),
    "an error": (message(b"E", b"", HUGE), b"x" * 1_000_000),
    "notices": (b"", NOTICES),
    "notifications": (b"", message(b"A", struct.pack("!I", 1) + b"\0\0") * 50_000),
}


def flooding(begin: bytes, piece: bytes, *, welcomes: bool) -> Callable[[socket.socket], None]:
    """Return a server that sends a piece without end, to the first statement or before the session has begun."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(WELCOME)
        if welcomes:
            connection.sendall(PARAMETERS + READY)
            connection.recv(65_536)
        connection.sendall(begin)
        send_without_end(connection, piece)

    return serve


def settings(port: int) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": port, "database": "d", "user": "u", "password": "p", "sslMode": "disable"}


@pytest.mark.parametrize("flood", FLOODS)
def test_an_endless_answer_is_refused(flood: str, tmp_path: Path) -> None:
    """Of whatever messages, and one single message that announces 1 GB."""
    with served(flooding(*FLOODS[flood], welcomes=True)) as port:
        use = used(tmp_path, f"hookline.kinds.postgres.sink.check_sink(context, {settings(port)!r})")
    assert f"127.0.0.1:{port} answers more than 16 MB to one statement" in use.said
    assert "correct the settings host and port" in use.said
    assert use.memory_mb < MEMORY_MB_MAX


def test_it_is_refused_before_a_session_begins(tmp_path: Path) -> None:
    """A server may say much before it takes the first statement."""
    with served(flooding(b"", NOTICES, welcomes=False)) as port:
        use = used(tmp_path, f"hookline.kinds.postgres.sink.check_sink(context, {settings(port)!r})")
    assert f"127.0.0.1:{port} answers more than 1 MB before a session begins" in use.said
    assert use.memory_mb < MEMORY_MB_MAX


def test_parameters_that_take_long_to_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library compares each with all that came before it, so a few MB of them would keep a processor for hours."""
    monkeypatch.setattr(bounded, "READING_SECONDS_MAX", 0.2)
    from hookline.kinds.postgres.sink import check_sink
    from hookline.kinds.sink import SinkContext

    many = b"".join(message(b"S", b"%x\0\0" % number) for number in range(1_000_000))
    context = SinkContext("d", tmp_path, lambda address: None, lambda *said: None)
    with (
        served(flooding(b"", many, welcomes=True)) as port,
        pytest.raises(SinkFailed, match=r"more than can be read within 0\.2 s of computing time"),
    ):
        check_sink(context, settings(port))


def test_a_session_that_has_read_much_is_replaced(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its server is asked for more than one connection may bring in all."""
    with warehouse.open() as sink:
        sink.write([event()])
        first = sink._server.connection()
        monkeypatch.setattr(bounded, "RENEWAL_BYTES", 100)
        assert sink.write([event()]) == [ACCEPTED]
        assert first.closed


def test_the_columns_of_a_large_schema_are_read(warehouse: Warehouse) -> None:
    """Several MB in one answer, which the kind asks for itself."""
    columns = ", ".join(f"{'a_long_name_for_a_column_with_a_number_':_<58}{n:05d} timestamptz" for n in range(800))
    warehouse.run("CREATE SCHEMA site")
    for number in range(30):
        warehouse.run(f"CREATE TABLE site.t{number} ({columns})")
    with warehouse.open() as sink:
        before = bounded.received_bytes(sink._server.connection().fileno())
        assert sink.write([event()]) == [ACCEPTED]
        received = bounded.received_bytes(sink._server.connection().fileno()) - before
    assert 2_000_000 < received < bounded.ANSWER_BYTES_MAX


def test_a_person_of_many_visitors_is_erased(warehouse: Warehouse) -> None:
    """Their anonymous ids come in one answer."""
    with warehouse.open() as sink:
        sink.write([event(userId="anna", anonymousId="v0"), event(anonymousId="x" * 36 + "7")])
        warehouse.run(
            "INSERT INTO site.tracks (id, received_at, user_id, anonymous_id)"
            " SELECT g::text, now(), 'anna', repeat('x', 36) || g FROM generate_series(1, 60000) g"
        )
        sink.write([event("delete", userId="anna")])
    assert warehouse.run("SELECT count(*) FROM site.tracks") == [(0,)]
