"""Mutual TLS: receivers that ask who is calling are shown the destination's client certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.deliver.certificates import DAY, Authority
from tests.service.deliver.hostile import HostileReceiver, answering
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

PAIR = {"clientCertificate": "file:client.pem", "clientKey": "file:client.key"}


def asking_tls(authority: Authority) -> ssl.SSLContext:
    """What a receiver has that lets in only whom the authority knows."""
    tls = authority.server()
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.file)
    return tls


class Asking:
    """A running service with receivers that ask for a certificate of the authority, and who they saw."""

    def __init__(self, hookline: Hookline, receiver: Receiver, authority: Authority, secrets: Path) -> None:
        self.hookline = hookline
        self.receiver = receiver
        self.authority = authority
        self._secrets = secrets

    def write(self, name: str, pair: tuple[bytes, bytes]) -> None:
        """Put a certificate and its key where destinations refer to, one after the other as tools do."""
        for suffix, content in zip(("pem", "key"), pair, strict=True):
            (self._secrets / f"{name}.{suffix}").write_bytes(content)

    def destination(self, id: str, url: str = "", **settings: Any) -> dict[str, Any]:
        """A destination with the receiver, or another."""
        made = webhook(id, url or self.receiver.url())
        made["settings"].update(settings)
        return made

    def attempts(self, id: str) -> list[dict[str, Any]]:
        """Send an event and return what the first attempts at a destination came to."""
        message_id = self.hookline.track()
        return wait_until(lambda: self.hookline.status_at(message_id, id).get("attempts"), what=id) or []

    def callers_of(self, id: str) -> list[str]:
        """Send an event and return whom the receiver has seen."""
        assert self.attempts(id)[0]["outcome"] == "success"
        return self.receiver.callers


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """The service with one destination per case."""
    folder = tmp_path_factory.mktemp("mutual")
    authority, strange = Authority(folder), Authority(folder, "Strange Authority")
    secrets = folder / "secrets"
    secrets.mkdir(mode=0o700)
    settings = {"deliver.ca_file": str(authority.file), "secrets.dir": str(secrets), "deliver.timeout": "20s"}
    tls = asking_tls(authority)
    with Receiver(tls=tls) as receiver, Hookline(folder / "h", settings=settings) as hookline:
        running = Asking(hookline, receiver, authority, secrets)
        running.write("client", authority.client("first"))
        running.write("strange", strange.client())
        yield running


def put(asking: Asking, id: str, **settings: Any) -> Any:
    """Save a destination as an owner."""
    return asking.hookline.api("PUT", f"destinations/{id}", asking.destination(id, **settings))


def test_a_receiver_that_asks_gets_the_event(asking: Asking) -> None:
    """With its certificate a destination delivers, test events too; what it says is shown, and no key."""
    assert put(asking, "shown", **PAIR).status == 201
    assert [each["outcome"] for each in asking.attempts("shown")] == ["success"]
    tested = asking.hookline.api("POST", "destinations/shown/test", {"sample": "track"})
    assert [each["outcome"] for each in tested.json["answers"]] == ["success"], tested
    shown = asking.hookline.api("GET", "destinations/shown/client-certificate").json
    assert (shown["subject"], shown["issuer"]) == ("CN=first", "CN=Test Authority")
    assert shown["problem"] is None
    exported = asking.hookline.api("GET", "connections/export").body
    assert b"clientKey: file:client.key" in exported
    assert b"PRIVATE" not in exported


@pytest.mark.parametrize(
    ("id", "pair", "reason"),
    [
        ("none", {}, "it asks for one: give the destination clientCertificate and clientKey"),
        (
            "strange",
            {"clientCertificate": "file:strange.pem", "clientKey": "file:strange.key"},
            "it does not trust the authority that issued it",
        ),
    ],
)
def test_a_refusal_says_what_the_receiver_wants(asking: Asking, id: str, pair: dict[str, str], reason: str) -> None:
    """Without a certificate, and with one of another authority, the attempt is TLS refused and says which it was."""
    with HostileReceiver(answering("HTTP/1.1 200 OK\nContent-Length: 0"), tls=asking_tls(asking.authority)) as receiver:
        asking.hookline.api("PUT", f"destinations/{id}", asking.destination(id, url=receiver.url(), **pair))
        first = asking.attempts(id)[0]
        asking.hookline.api("DELETE", f"destinations/{id}")
    assert (first["outcome"], first["httpStatus"]) == ("tls_refused", None)
    assert reason in first["error"]


def test_a_renewed_certificate_is_shown_by_the_next_connection(asking: Asking) -> None:
    """Files that change under the service are read again: no restart, and no event fails meanwhile."""
    asking.receiver.respond = lambda request: Reply(headers={"Connection": "close"})
    asking.write("renewed", asking.authority.client("before"))
    put(asking, "renewed", clientCertificate="file:renewed.pem", clientKey="file:renewed.key")
    assert "before" in asking.callers_of("renewed")
    asking.write("renewed", asking.authority.client("after"))
    wait_until(lambda: "after" in asking.callers_of("renewed"), what="a connection with the new one")


def test_a_pair_that_cannot_be_used_is_not_saved(asking: Asking) -> None:
    """Expired, another's key, a key written out, not there: each is refused with what to do; nothing is saved."""
    asking.write("old", asking.authority.client(begins=-2 * DAY, ends=-DAY))
    asking.write("half", (asking.authority.client()[0], asking.authority.client()[1]))
    refusals = {
        ("file:old.pem", "file:old.key"): "have it renewed",
        ("file:half.pem", "file:half.key"): "not that of the certificate",
        ("file:gone.pem", "file:gone.key"): "cannot read file:gone.pem",
        ("file:client.key", "file:client.pem"): "leads to no certificate",
        ("file:client.pem", "-----BEGIN PRIVATE KEY-----"): "write where it is",
        ("file:client.pem", None): "go together",
    }
    for (certificate, key), reason in refusals.items():
        answer = put(asking, "refused", clientCertificate=certificate, clientKey=key)
        assert (answer.status, answer.json["code"]) == (422, "invalid_certificate"), answer
        assert reason in answer.json["detail"]
    assert asking.hookline.api("GET", "destinations/refused").status == 404
