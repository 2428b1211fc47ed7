"""A store that answers without end is refused with a sentence, and takes little memory."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.kinds.files import tunnel
from hookline.kinds.files.bucket import BucketStore
from hookline.kinds.files.sink import open_sink
from hookline.kinds.sink import SinkFailed
from tests.service.deliver.certificates import Authority
from tests.unit.kinds.endless import MEMORY_MB_MAX, send_without_end, served, used
from tests.unit.kinds.files.place import context, event

SETTINGS: dict[str, Any] = {"where": "s3", "bucket": "lake", "region": "us-east-1", "accessKey": "k", "secretKey": "s"}
TAKEN = b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n'
PIECE = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
DATE = b"Last-Modified: Fri, 20 Nov 2026 07:00:00 GMT\r\n"


def heads(connection: socket.socket) -> Iterator[bytes]:
    """Yield the head of each request; bodies are of a few bytes, and come with it."""
    while head := connection.recv(65_536):
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        yield head


def endless(method: bytes, status: bytes) -> Callable[[socket.socket], None]:
    """Return a store that answers requests of one method without end, and takes whatever else comes."""

    def serve(connection: socket.socket) -> None:
        for head in heads(connection):
            if not head.startswith(method):
                connection.sendall(TAKEN)
                continue
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
            send_without_end(connection, PIECE)
            return

    return serve


@pytest.mark.parametrize(
    ("method", "status", "call"),
    [
        (b"PUT", b"400 Bad Request", "put_all({'a': b''})"),
        (b"PUT", b"503 Slow Down", "put_all({'a': b''})"),
        (b"GET", b"400 Bad Request", "get('a')"),
        (b"GET", b"200 OK", "names('a', '')"),
        (b"POST", b"403 Forbidden", "delete_all(['a'])"),
    ],
)
def test_an_endless_answer_is_refused(method: bytes, status: bytes, call: str, tmp_path: Path) -> None:
    """Whatever was asked, and although the library reads each answer to its end and asks again."""
    with served(endless(method, status)) as port:
        settings = {**SETTINGS, "endpoint": f"http://127.0.0.1:{port}"}
        use = used(tmp_path, f"BucketStore(context, {settings!r}).{call}")
    assert "127.0.0.1 answers more than the " in use.said
    assert "set endpoint to an S3-compatible store" in use.said
    assert use.memory_mb < MEMORY_MB_MAX


def test_it_is_refused_over_tls(tmp_path: Path) -> None:
    """Where the tunnel does not see what it leads."""
    authority = Authority(tmp_path)
    tls: ssl.SSLContext = authority.server("localhost")
    with served(endless(b"PUT", b"400 Bad Request"), tls) as port:
        own = {"endpoint": f"https://localhost:{port}", "authority": authority.file.read_text()}
        use = used(tmp_path, f"BucketStore(context, { ({**SETTINGS, **own})!r})")
    assert "localhost answers more than the 1,024 KB" in use.said
    assert use.memory_mb < MEMORY_MB_MAX


def test_a_write_fails_as_with_any_store_that_is_away(tmp_path: Path) -> None:
    """So its events are tried again later; and a store that answers as it should afterwards takes them."""
    bad = [False]

    def serve(connection: socket.socket) -> None:
        for head in heads(connection):
            if bad[0]:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n")
                send_without_end(connection, PIECE)
                return
            if head.startswith(b"GET") and b"list-type" in head:
                body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            elif head.startswith(b"GET") and b"owner" in head:
                body = b'{"destination":"lake"}'
                connection.sendall(b"HTTP/1.1 200 OK\r\nETag: x\r\n" + DATE + b"Content-Length: 22\r\n\r\n" + body)
            elif head.startswith(b"GET"):
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            else:
                connection.sendall(TAKEN)

    with served(serve) as port:
        settings = {**SETTINGS, "endpoint": f"http://127.0.0.1:{port}", "format": "ndjson", "compression": "none"}
        sink = open_sink(context(tmp_path), settings)
        bad[0] = True
        with pytest.raises(SinkFailed, match="answers more than the"):
            sink.write([event(1)])
        bad[0] = False
        assert [verdict.accepted for verdict in sink.write([event(1)])] == [True]
        sink.close()


def test_a_large_file_is_read(tmp_path: Path) -> None:
    """As large as it is announced to be, which is far more than what is allowed for other answers."""
    size = 24 * tunnel.ANSWER_BYTES_MAX

    def serve(connection: socket.socket) -> None:
        for head in heads(connection):
            if not head.startswith(b"GET"):
                connection.sendall(TAKEN)
                continue
            connection.sendall(b"HTTP/1.1 200 OK\r\nETag: x\r\n" + DATE + b"Content-Length: %d\r\n\r\n" % size)
            connection.sendall(b"x" * size)

    with served(serve) as port:
        store = BucketStore(context(tmp_path), {**SETTINGS, "endpoint": f"http://127.0.0.1:{port}"})
        assert store.get("a") == b"x" * size
        store.close()
