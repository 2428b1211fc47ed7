"""Client certificates from the command line: referred to in a file or field by field, seen with their end, refused."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.service.cli.conftest import Run
from tests.service.deliver.certificates import DAY, Authority
from tests.service.harness import SOURCE, Hookline, Receiver, webhook

PAIR = {"clientCertificate": "file:crm.pem", "clientKey": "file:crm.key"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of the receiver and of the certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def asking(authority: Authority) -> Iterator[Receiver]:
    """A receiver that takes nothing from whom the authority does not know."""
    tls = authority.server()
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.file)
    with Receiver(tls=tls) as running:
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Hookline]:
    """One service with two pairs in its secrets: one for 20 days, and one that has expired."""
    secrets = tmp_path_factory.mktemp("secrets")
    secrets.chmod(0o700)
    for name, pair in {
        "crm": authority.client("acme", ends=20 * DAY),
        "old": authority.client("acme", begins=-2 * DAY, ends=-DAY),
    }.items():
        for suffix, content in zip(("pem", "key"), pair, strict=True):
            (secrets / f"{name}.{suffix}").write_bytes(content)
            (secrets / f"{name}.{suffix}").chmod(0o600)
    settings = {"deliver.ca_file": str(authority.file), "secrets.dir": str(secrets), "deliver.timeout": "20s"}
    with Hookline(tmp_path_factory.mktemp("certificates") / "h", settings=settings) as running:
        yield running


def destination(id: str, receiver: Receiver, **pair: str) -> dict[str, object]:
    """A destination with the receiver and a pair."""
    made = webhook(id, receiver.url())
    made["settings"].update(pair)
    return made


def test_a_file_says_where_it_is(hookline: Hookline, asking: Receiver, tmp_path: Path, run: Run) -> None:
    """Applied from a file it is shown to the receiver; its end is told, and export has the references alone."""
    file = tmp_path / "connections.yaml"
    file.write_text(json.dumps({"sources": [SOURCE], "destinations": [destination("crm", asking, **PAIR)]}))
    assert "+ destination crm" in run(hookline, "apply", str(file)).stdout
    hookline.wait_status(hookline.track(), "crm", "delivered")
    assert asking.callers[-1] == "acme"
    shown = json.loads(run(hookline, "api", "GET", "/destinations/crm/client-certificate").stdout)
    assert (shown["subject"], shown["clientCertificate"], shown["problem"]) == ("CN=acme", "file:crm.pem", None)
    left = datetime.fromisoformat(shown["expiresAt"]) - datetime.now(UTC)
    assert 19 * DAY < left < 20 * DAY
    found = json.loads(run(hookline, "doctor", "--json").stdout)["findings"]
    assert any("crm" in each["message"] and "expires" in each["message"] for each in found), found
    exported = run(hookline, "export").stdout
    assert "clientKey: file:crm.key" in exported
    assert "PRIVATE" not in exported
    file.write_text(exported)
    assert run(hookline, "apply", str(file)).stdout == "nothing to change\n"


def test_it_is_given_and_taken_away_field_by_field(
    hookline: Hookline, asking: Receiver, tmp_path: Path, run: Run
) -> None:
    """``destinations put`` without one, ``change`` to one, a test event with it, and ``change`` to none."""
    file = tmp_path / "destination.json"
    file.write_text(json.dumps(destination("fields", asking)))
    assert run(hookline, "destinations", "put", str(file)).returncode == 0
    given = [f"settings.{name}={value}" for name, value in PAIR.items()]
    assert run(hookline, "destinations", "change", "fields", *given).returncode == 0
    tested = run(hookline, "test", "fields", "--sample", "track")
    assert tested.returncode == 0, tested.stdout
    taken = [f"settings.{name}=null" for name in PAIR]
    assert run(hookline, "destinations", "change", "fields", *taken).returncode == 0
    shown = run(hookline, "api", "GET", "/destinations/fields/client-certificate")
    assert (shown.returncode, "has no client certificate" in shown.stderr + shown.stdout) == (1, True)


def test_one_that_cannot_be_used_is_refused_with_its_place(
    hookline: Hookline, asking: Receiver, tmp_path: Path, run: Run
) -> None:
    """Expired, or not there: nothing is applied, and the sentence says what to do and where."""
    file = tmp_path / "bad.yaml"
    for name, reason in {"old": "have it renewed", "gone": "cannot read file:gone.pem"}.items():
        pair = {"clientCertificate": f"file:{name}.pem", "clientKey": f"file:{name}.key"}
        file.write_text(json.dumps({"destinations": [destination("bad", asking, **pair)]}))
        refused = run(hookline, "apply", str(file))
        assert refused.returncode == 1
        assert reason in refused.stderr
        assert "clientCertificate" in refused.stderr
    assert hookline.api("GET", "destinations/bad").status == 404
