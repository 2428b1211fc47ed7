"""TLS to a server: encrypted when asked for, and with verify-full only to the server that is meant."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.kinds.answers import ACCEPTED
from hookline.kinds.sink import SinkFailed
from tests.postgres import PostgresServer
from tests.service.deliver.certificates import Authority
from tests.unit.kinds.postgres.warehouse import Warehouse, event


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the server's certificate."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    """A server that speaks TLS, with a certificate for localhost."""
    made = PostgresServer(in_memory=True)
    try:
        data = made.folder / "data"
        owner = data.stat()
        authority.server("localhost")
        (pair,) = [path for path in authority.file.parent.iterdir() if path != authority.file]
        both = shutil.copy(pair, data / "server.pem")
        Path(both).chmod(0o600)
        shutil.chown(both, owner.st_uid, owner.st_gid)
        for name in ("ssl_cert_file", "ssl_key_file"):
            made.admin(f"ALTER SYSTEM SET {name} = 'server.pem'")
        made.admin("ALTER SYSTEM SET ssl = on")
        made.admin("SELECT pg_reload_conf()")
        yield made
    finally:
        made.remove()


@pytest.fixture
def over_tls(server: PostgresServer, tmp_path: Path) -> Iterator[Warehouse]:
    """A database there."""
    with server.database() as url:
        yield Warehouse(server, url, tmp_path / "files")


def test_require_encrypts(over_tls: Warehouse) -> None:
    """The server sees an encrypted session."""
    with over_tls.open(sslMode="require") as sink:
        assert sink.write([event()]) == [ACCEPTED]
        named = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'hookline %'"
        assert over_tls.server.admin(named) == [(True,)]


def test_verify_full_needs_the_right_name_and_authority(
    over_tls: Warehouse, authority: Authority, tmp_path: Path
) -> None:
    """With both it writes; without one of them nothing is sent, and the sentence says what to give."""
    ours = authority.file.read_text()
    other = Authority(tmp_path, "Another Authority").file.read_text()
    given = {"sslMode": "verify-full", "caCertificate": ours}
    assert over_tls.write(event(), host="localhost", **given) == [ACCEPTED]
    for wrong in ({"host": "127.0.0.1"}, {"caCertificate": other}, {"caCertificate": ""}):
        with pytest.raises(SinkFailed, match=r"the certificate of .* is not trusted; give caCertificate"):
            over_tls.write(event(), **{"host": "localhost", **given, **wrong})
    assert len(over_tls.rows("site.tracks")) == 1
