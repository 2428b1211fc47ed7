"""Notices of client certificates that end, and of those that cannot be shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hookline.connections.model import LaneConfig
from hookline.connections.state import Stored
from hookline.features.notices.conditions.destinations import LOOK_MS, ClientCertificates
from hookline.features.notices.conditions.finding import Moment
from hookline.settings import Secrets, Settings
from tests.service.deliver.certificates import DAY, Authority
from tests.unit.connections.examples import destination


def looked(condition: ClientCertificates, after_ms: int = 0, enabled: bool = True) -> list[tuple[str, str]]:
    """Kinds and subjects found a while after now."""
    crm = destination("crm")
    pair = {"client_certificate": "file:crm.pem", "client_key": "file:crm.key"}
    crm = replace(crm, settings=replace(crm.settings, **pair))
    stored = Stored(crm, 1, None, LaneConfig(number=1, sources={}) if enabled else None)
    return [
        (each.kind, each.subject)
        for each in condition.findings(Moment(int(datetime.now(UTC).timestamp() * 1000) + after_ms, {}, [stored]))
    ]


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        (40 * DAY, None),
        (29 * DAY, "client_certificate_expiring"),
        (-timedelta(minutes=1), "client_certificate_unusable"),
    ],
)
def test_a_certificate_is_told_of_before_and_at_its_end(tmp_path: Path, ends: timedelta, kind: str | None) -> None:
    """30 days before it expires, and when it has; a renewed one resolves it within a minute."""
    authority = Authority(tmp_path)
    condition = ClientCertificates(Settings(secrets=Secrets(dir=str(tmp_path))))
    write(tmp_path, authority.client(begins=-2 * DAY, ends=ends))
    assert looked(condition) == ([] if kind is None else [(kind, "crm")])
    write(tmp_path, authority.client())
    assert looked(condition, LOOK_MS) == []


def test_a_clock_that_is_set_back_holds_nothing_up(tmp_path: Path) -> None:
    """A renewed certificate resolves the notice at the next look, not once the clock has come so far again."""
    condition = ClientCertificates(Settings(secrets=Secrets(dir=str(tmp_path))))
    assert looked(condition) == [("client_certificate_unusable", "crm")]
    write(tmp_path, Authority(tmp_path).client())
    assert looked(condition, -3_600_000) == []


def test_one_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    """Of an enabled destination; a disabled one needs none."""
    condition = ClientCertificates(Settings(secrets=Secrets(dir=str(tmp_path))))
    assert looked(condition) == [("client_certificate_unusable", "crm")]
    assert looked(condition, enabled=False) == []


def write(folder: Path, pair: tuple[bytes, bytes]) -> None:
    """Put a pair where the destination refers to."""
    (folder / "crm.pem").write_bytes(pair[0])
    (folder / "crm.key").write_bytes(pair[1])
