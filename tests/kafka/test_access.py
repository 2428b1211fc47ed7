"""Brokers that ask for TLS, a password or a certificate: who is right comes in, who is wrong is told why."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from hookline.journal.conformance import a_record, records_of
from hookline.journal.kafka.address import KafkaAccess, KafkaAddress
from hookline.journal.kafka.appender import KafkaAppender
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.kafka.topic import partition_count
from hookline.journal.port import JournalAway
from tests.kafka.cluster import Cluster, Listener
from tests.kafka.security import KEY_PASSWORD, PASSWORD, USER, Certificates
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, wait_until, webhook

ASK_SECONDS = 1.0

Access = Callable[[Certificates], tuple[Listener, KafkaAccess]]


def by_password(mechanism: str, password: str = PASSWORD, authority: str = "authority") -> Access:
    """With this password, over TLS."""

    def access(certificates: Certificates) -> tuple[Listener, KafkaAccess]:
        trusted = str(getattr(certificates, authority))
        return "PASSWORD", KafkaAccess(
            tls=True, tls_ca_file=trusted, sasl_mechanism=mechanism, sasl_username=USER, sasl_password=password
        )

    return access


def by_certificate(
    key: str | None = "client_key", password: str | None = None, listener: Listener = "CERTIFICATE"
) -> Access:
    """With a certificate, or over TLS alone when there is no key."""

    def access(certificates: Certificates) -> tuple[Listener, KafkaAccess]:
        return listener, KafkaAccess(
            tls=True,
            tls_ca_file=str(certificates.authority),
            tls_certificate_file=str(certificates.client_certificate) if key else None,
            tls_key_file=str(getattr(certificates, key)) if key else None,
            tls_key_password=password,
        )

    return access


def address_of(cluster: Cluster, topic: str, access: Access) -> KafkaAddress:
    """The topic as this client meets it."""
    listener, met_with = access(cluster.certificates)
    return KafkaAddress(cluster.listening(listener), topic, met_with)


@pytest.mark.parametrize(
    "access",
    [
        by_password("PLAIN"),
        by_password("SCRAM-SHA-256"),
        by_password("SCRAM-SHA-512"),
        by_certificate(),
        by_certificate("client_locked_key", KEY_PASSWORD),
    ],
    ids=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate", "certificate with a locked key"],
)
def test_who_is_let_in_appends_and_reads(tmp_path: Path, cluster: Cluster, topic: str, access: Access) -> None:
    """The topic is made, a record appended and read again, all through the listener that asks."""
    address = address_of(cluster, topic, access)

    async def store() -> None:
        appender = KafkaAppender(tmp_path, address, retention_seconds=1 << 40, retention_bytes=1 << 40)
        try:
            appender.open()
            await appender.append([a_record(0)])
            assert appender.state() == ""
        finally:
            await appender.close()

    asyncio.run(store())
    reader = KafkaReader(tmp_path, address)
    try:
        assert [each.message_id for each in records_of(list(reader.read(0, 0)))] == [a_record(0).message_id]
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("access", "sentence"),
    [
        (by_password("PLAIN", "wrong"), f"Kafka refuses the user {USER} with PLAIN .* correct journal.sasl_mechanism"),
        (by_password("SCRAM-SHA-512", "wrong"), f"Kafka refuses the user {USER} with SCRAM-SHA-512"),
        (by_password("PLAIN", authority="other_authority"), r"not to be trusted: set journal\.tls_ca_file"),
        (by_certificate(None), r"refuses the client's certificate.* correct journal\.tls_certificate_file"),
        (by_certificate(None, listener="PLAINTEXT"), r"no TLS with the brokers .* or set journal\.tls to false"),
    ],
    ids=["wrong password", "wrong scram", "untrusted", "no certificate", "no TLS there"],
)
def test_who_is_turned_away_is_told_why(cluster: Cluster, topic: str, access: Access, sentence: str) -> None:
    """The setting to correct is named, and never the password."""
    address = address_of(cluster, topic, access)
    wait_until(lambda: re.search(sentence, _refusal(address)), what=sentence)
    assert "wrong" not in _refusal(address)


def test_a_broker_that_is_not_who_it_should_be_is_told_nothing(cluster: Cluster, topic: str) -> None:
    """A certificate for another name is refused before the password is sent."""
    address = address_of(cluster, topic, by_password("PLAIN"))
    address = address._replace(servers=address.servers.replace("127.0.0.1", "localhost"))
    wait_until(lambda: "name brokers in journal.url as it names them" in _refusal(address), what="it is refused")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


def secured(cluster: Cluster, topic: str, user: str) -> dict[str, Any]:
    """The settings of a service that comes in with a password."""
    return {
        "journal.url": cluster.url(topic, "PASSWORD"),
        "journal.partitions": 2,
        "journal.tls": True,
        "journal.tls_ca_file": str(cluster.certificates.authority),
        "journal.sasl_mechanism": "SCRAM-SHA-512",
        "journal.sasl_username": user,
        "journal.sasl_password": "env:HOOKLINE_SECRET_KAFKA",
    }


def test_the_service_comes_in_once_the_user_is_known(
    tmp_path: Path, cluster: Cluster, topic: str, receiver: Receiver
) -> None:
    """Refused: alive, not ready, and log and doctor say what to correct. Let in: ready by itself, events go through
    every role, and neither log nor files hold the password."""
    user, password = f"user-{topic}", f"secret-of-{topic}"
    environment = {"HOOKLINE_SECRET_KAFKA": password}
    hookline = Hookline(
        tmp_path,
        [webhook("crm", receiver.url())],
        settings=secured(cluster, topic, user),
        environment=environment,
    )
    hookline.launch()
    try:
        wait_until(lambda: f"Kafka refuses the user {user}" in hookline.log, 60, "it says that it is refused")
        wait_until(lambda: _status(hookline, "/healthz") == 200, what="collect is alive")
        assert _status(hookline, "/readyz") == 503
        assert "journal.sasl_password" in _doctor(hookline, environment)["message"]
        wait_until(lambda: _collect_says(hookline, "hookline_journal_away") == 1, what="the gauge is up")
        _let_in(cluster, user, password)
        hookline.wait_ready()
        message = hookline.track(userId="u")
        receiver.wait_for(message)
        hookline.wait_status(message, "crm", "delivered")
        wait_until(lambda: hookline.metric("hookline_journal_away") == 0, what="the gauge is down")
        assert _doctor(hookline, environment)["status"] == "ok"
        assert password not in hookline.log
        kept = [path for path in (tmp_path).rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
        assert kept == []
    finally:
        hookline.kill9()


def _refusal(address: KafkaAddress) -> str:
    """Why brokers cannot be asked about the topic."""
    with pytest.raises(JournalAway) as refused:
        partition_count(address, ASK_SECONDS)
    return str(refused.value)


def _let_in(cluster: Cluster, user: str, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.addresses})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, password.encode())])
    made[user].result(10)


def _status(hookline: Hookline, path: str) -> int:
    try:
        return send(hookline.collect_port, "GET", path).status
    except OSError:
        return 0


def _collect_says(hookline: Hookline, metric: str) -> float:
    """A metric of collect, from its file: control, which serves them, may wait for brokers itself."""
    try:
        return float(json.loads((hookline.data / "run" / "metrics-collect.json").read_bytes())[metric])
    except OSError:
        return -1.0


def _doctor(hookline: Hookline, environment: dict[str, str]) -> dict[str, str]:
    """What ``hookline doctor`` finds about the journal."""
    command = [sys.executable, "-m", "hookline.cli.main", "doctor", "--json", "--data-dir", str(hookline.data)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**hookline.environment, **environment}, check=False
    )
    found: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return next(each for each in found if each["check"] == "journal")
