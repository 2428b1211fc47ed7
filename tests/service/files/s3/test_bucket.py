"""Files in a bucket of a real S3-compatible server: fences, erasures, addresses that are not allowed, wrong keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.deliver.lanes.sinks import sink_context
from hookline.kinds.files import bucket
from hookline.kinds.files.bucket import BucketStore
from hookline.kinds.files.sink import FilesSink, open_sink
from hookline.kinds.sink import SinkContext, SinkFailed, check_sink
from hookline.setting_values import Networks
from hookline.settings import Deliver, Settings
from tests.service.deliver.certificates import Authority
from tests.service.files.place import ids_named, ids_there, manifests
from tests.service.files.s3.server import S3Server
from tests.unit.deliver.test_proxy import CREDENTIALS, ConnectProxy
from tests.unit.kinds.files.place import context, event

USUAL = {"format": "parquet", "compression": "zstd", "pathStyle": True}


def sink(s3: S3Server, folder: Path, **more: Any) -> FilesSink:
    return open_sink(context(folder), {**USUAL, **s3.settings, **more})


def test_a_number_is_taken_once(s3: S3Server, tmp_path: Path) -> None:
    """The server refuses to create what is there, and the sink finds out that it does."""
    store = BucketStore(context(tmp_path), s3.settings)
    assert store.is_fenced
    assert store.create("a/1.json", b"one")
    assert not store.create("a/1.json", b"two")
    assert store.get("a/1.json") == b"one"
    assert store.get("a/2.json") is None
    store.delete_all(["a/1.json", "a/2.json"])
    assert store.names("a", "") == []
    store.close()


def test_names_come_after_one(s3: S3Server, tmp_path: Path) -> None:
    """More names than one answer holds are listed, from where somebody wants to go on."""
    store = BucketStore(context(tmp_path), s3.settings)
    store.put_all({f"m/{number:05d}": b"x" for number in range(1_100)})
    assert store.names("m", "") == [f"{number:05d}" for number in range(1_100)]
    assert store.names("m", "01097") == ["01098", "01099"]
    store.close()


def test_a_change_meanwhile_is_not_lost(s3: S3Server, tmp_path: Path) -> None:
    """Who rewrites a file that another rewrote meanwhile begins anew with what is there now."""
    store = BucketStore(context(tmp_path), s3.settings)
    store.put_all({"f": b"1"})
    meanwhile = [b"12"]

    def change(data: bytes) -> bytes:
        if meanwhile:
            store.put_all({"f": meanwhile.pop()})
        return data + b"3"

    store.change("f", change)
    assert store.get("f") == b"123"
    store.close()


def test_two_processes_share_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    """Both commit, each sees what the other covered, and every event is there once."""
    one, two = sink(s3, tmp_path), sink(s3, tmp_path)
    one.write([event(offset) for offset in range(10)])
    two.write([event(offset, partition=1) for offset in range(10)])
    one.write([event(offset, partition=1) for offset in range(15)])
    expected = sorted([f"m0-{n}" for n in range(10)] + [f"m1-{n}" for n in range(15)])
    assert ids_named(s3.bucket / "events") == ids_there(s3.bucket / "events") == expected
    one.close()
    two.close()


def test_a_person_leaves_the_bucket(s3: S3Server, tmp_path: Path) -> None:
    """The files that hold the person are written anew in the bucket, and a manifest there says so."""
    writing = sink(s3, tmp_path)
    writing.write([event(offset, user="anna" if offset % 2 else "bert") for offset in range(10)])
    writing.write([event(10, type="delete", user="anna")])
    assert ids_there(s3.bucket / "events") == [f"m0-{n}" for n in range(0, 10, 2)]
    assert manifests(s3.bucket / "events")[-1]["rowsErased"] == 5
    writing.close()


def test_inner_addresses_are_refused(s3: S3Server, tmp_path: Path) -> None:
    """Where the guard does not allow the address nothing is connected, and the reason names the way out."""
    reason = "127.0.0.1 is not allowed; see deliver.allow_networks"
    guarded = SinkContext("lake", tmp_path, lambda address: reason, lambda name, sentence: None)
    with pytest.raises(SinkFailed, match=r"deliver\.allow_networks"):
        open_sink(guarded, {**USUAL, **s3.settings})


def test_a_check_leaves_nothing_in_the_bucket(s3: S3Server, tmp_path: Path) -> None:
    """It writes below the prefix by the rules of the guard, and says why it cannot."""
    module, settings = "hookline.kinds.files.sink", {**USUAL, **s3.settings, "prefix": "checked"}
    check_sink(module, context(tmp_path), settings)
    assert not [path for path in (s3.bucket / "checked").rglob("*") if path.is_file()]
    reason = "127.0.0.1 is not allowed; see deliver.allow_networks"
    guarded = SinkContext("lake", tmp_path, lambda address: reason, lambda name, sentence: None)
    with pytest.raises(SinkFailed, match=r"deliver\.allow_networks"):
        check_sink(module, guarded, settings)
    with pytest.raises(SinkFailed, match="the store does not take it"):
        check_sink(module, context(tmp_path), {**settings, "secretKey": "another-secret"})


@pytest.fixture
def proxy() -> Iterator[tuple[ConnectProxy, Settings]]:
    """A proxy that is asked to connect, and settings by which everything leaves through it."""
    found, loop = ConnectProxy(), asyncio.new_event_loop()
    serving = loop.run_until_complete(asyncio.start_server(found.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    url = f"http://{CREDENTIALS}@127.0.0.1:{serving.sockets[0].getsockname()[1]}"
    yield found, Settings(deliver=Deliver(proxy=url, allow_networks=Networks(("127.0.0.0/8",))))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_files_leave_through_the_proxy(s3: S3Server, proxy: tuple[ConnectProxy, Settings]) -> None:
    """It is asked for the address that was checked; a store that it does not connect to is named with the reason."""
    found, settings = proxy
    store = BucketStore(sink_context(settings, "lake", lambda name, sentence: None), s3.settings)
    store.put_all({"f": b"1"})
    assert store.get("f") == b"1"
    store.close()
    assert set(found.asked) == {("CONNECT", f"127.0.0.1:{s3.port}")}
    elsewhere = {**s3.settings, "endpoint": "http://127.0.0.1:1"}
    without_password = msgspec.structs.replace(
        settings, deliver=msgspec.structs.replace(settings.deliver, proxy=settings.deliver.proxy.replace("secret", ""))
    )
    with pytest.raises(SinkFailed, match=r"give deliver\.proxy its user and password"):
        BucketStore(sink_context(without_password, "lake", lambda name, sentence: None), elsewhere)


def test_another_look_up_changes_nothing(s3: S3Server, tmp_path: Path) -> None:
    """The address is looked at again for each connection: one that is not allowed any more is not connected to."""
    refused: list[str] = []
    moving = SinkContext("lake", tmp_path, lambda address: refused[0] if refused else None, lambda name, text: None)
    store = BucketStore(moving, s3.settings)
    store.put_all({"f": b"1"})
    s3.kill9()  # connections that are open are gone with it
    s3.start()
    refused.append("the address moved inside; see deliver.allow_networks")
    with pytest.raises(SinkFailed, match="moved inside"):
        store.get("f")
    store.close()


@pytest.fixture
def redirecting() -> Iterator[tuple[str, list[str]]]:
    """A store that redirects whatever is read to another server, which is inside: its endpoint, and what is asked for
    inside."""
    asked: list[str] = []

    class Store(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.answer(200)

        def do_GET(self) -> None:
            if self.server is inside:
                asked.append(self.path)
            self.answer(302)

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Location", f"http://127.0.0.1:{inside.server_port}/latest/meta-data")
            self.send_header("ETag", "x")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as inside, ThreadingHTTPServer(("127.0.0.2", 0), Store) as store:
        for each in (inside, store):
            threading.Thread(target=each.serve_forever, daemon=True).start()
        yield f"http://127.0.0.2:{store.server_port}", asked
        for each in (inside, store):
            each.shutdown()


def test_a_redirect_leads_nowhere(redirecting: tuple[str, list[str]], tmp_path: Path) -> None:
    """A store without TLS that answers with an address inside has nobody ask there, and the reason says so."""
    endpoint, asked = redirecting
    only = SinkContext("lake", tmp_path, lambda each: None if each == "127.0.0.2" else each, lambda name, text: None)
    keys = {"bucket": "events", "region": "us-east-1", "accessKey": "key", "secretKey": "secret"}
    store = BucketStore(only, {**USUAL, **keys, "endpoint": endpoint})
    with pytest.raises(SinkFailed, match="redirects to another address"):
        store.get("a")
    store.close()
    assert asked == []


class Endless(BaseHTTPRequestHandler):
    """A store that always has more to list, with or without names, and whose files are larger than any disk."""

    names = 0
    """In one answer."""
    asked = 0

    def do_PUT(self) -> None:
        self.answer(200, b"")

    def do_GET(self) -> None:
        if "list-type" not in self.path:
            self.answer(200, b"", bucket.FILE_BYTES_MAX + 1)
            return
        Endless.asked += 1
        entry = (
            "<Contents><Key>events/m/{}</Key><Size>1</Size><LastModified>2026-11-20T07:00:00.000Z</LastModified>"
            '<ETag>"x"</ETag></Contents>'
        )
        listed = "".join(entry.format(f"{self.asked}-{number}") for number in range(self.names))
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{self.asked}</NextContinuationToken>"
        self.answer(200, f"<ListBucketResult><KeyCount>1</KeyCount>{more}{listed}</ListBucketResult>".encode())

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("ETag", "x")
        self.send_header("Last-Modified", "Fri, 20 Nov 2026 07:00:00 GMT")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[BucketStore]:
    """A view of such a store."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = {"bucket": "lake", "region": "us-east-1", "accessKey": "key", "secretKey": "secret", "prefix": "events"}
        store = BucketStore(context(tmp_path), {**USUAL, **keys, "endpoint": f"http://127.0.0.1:{server.server_port}"})
        yield store
        store.close()
        server.shutdown()


@pytest.mark.parametrize(("names", "bound"), [(0, "LISTING_SECONDS_MAX"), (3, "LISTING_SECONDS_MAX"), (3, "NAMES_MAX")])
def test_a_listing_ends(endless: BucketStore, names: int, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the store answers: after a time, or so many names, and the reason says what to do."""
    monkeypatch.setattr(Endless, "names", names)
    monkeypatch.setattr(bucket, bound, 1)
    with pytest.raises(SinkFailed, match="lists m without end; use another store"):
        endless.names("m", "")


def test_a_file_that_is_too_large_is_not_read(endless: BucketStore) -> None:
    """It would take all the memory of a process that sends to others too."""
    with pytest.raises(SinkFailed, match="larger than anything that was written there"):
        endless.get("a")


def test_wrong_keys_are_named(s3: S3Server, tmp_path: Path) -> None:
    """Who has the wrong secret reads that the store refuses, and the secret is not in the words."""
    with pytest.raises(SinkFailed, match="the store does not take it") as failure:
        sink(s3, tmp_path, secretKey="another-secret")
    assert "another-secret" not in str(failure.value)


def test_the_certificate_is_that_of_the_name(tmp_path: Path) -> None:
    """Over TLS the store's certificate is verified for its name, by the authority that the settings name."""
    authority = Authority(tmp_path)
    authority.server("localhost")
    (certificate,) = set(tmp_path.glob("*.pem")) - {authority.file}
    with S3Server(tmp_path / "s3", certificate) as server:
        settings = {**server.settings, "endpoint": f"https://localhost:{server.port}"}
        with pytest.raises(SinkFailed, match="the store does not take it"):
            BucketStore(context(tmp_path), settings)
        store = BucketStore(context(tmp_path), {**settings, "authority": authority.file.read_text()})
        store.put_all({"f": b"1"})
        assert store.get("f") == b"1"
        store.close()
        elsewhere = {**settings, "endpoint": f"https://127.0.0.1:{server.port}"}
        with pytest.raises(SinkFailed, match="the store does not take it"):
            BucketStore(context(tmp_path), {**elsewhere, "authority": authority.file.read_text()})
