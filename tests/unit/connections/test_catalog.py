"""Kinds of destination: Hookline's own, and such as other packages bring without a change to the core."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.check import check_destination
from hookline.connections.model import Destination
from hookline.connections.secrets import redact, why_unusable
from hookline.connections.state import decode_object
from hookline.features.destinations.tester.request_writer import RequestWriter
from hookline.kinds.catalog import OWN, OWN_PUBLISHED_NAME, kinds, own_ids, published_name, request_headers
from hookline.settings import Settings
from tests.unit.control.running import Running, destination, record, source

MANIFEST: dict[str, Any] = {
    "name": "Acme CRM",
    "publishedName": "Acme",
    "description": "Sends events to Acme.",
    "calls": ["track"],
    "urlPrefixes": ["https://in.acme.example/"],
    "headers": {"X-Acme-Client": "hookline"},
}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with a kind, as an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(kind: str = "acme", package: str = "acme_hookline", **manifest: Any) -> None:
        folder = tmp_path / package
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "kind.yaml").write_bytes(msgspec.yaml.encode({**MANIFEST, **manifest}))
        (folder / "guide.md").write_text("## Set it up\n")
        facts = tmp_path / f"{package}-1.2.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (facts / "entry_points.txt").write_text(f"[hookline.destinations]\n{kind} = {package}\n")
        sys.modules.pop(package, None)
        kinds.cache_clear()

    kinds.cache_clear()
    yield installed
    monkeypatch.undo()
    kinds.cache_clear()


def acme(url: str = "https://in.acme.example/hook", **fields: Any) -> Destination:
    """A destination of the kind that tests install."""
    settings = {"webhooks": [{"url": url}]}
    return msgspec.convert({"id": "crm", "name": "CRM", "kind": "acme", "settings": settings, **fields}, Destination)


def test_the_own_kind_is_what_the_core_takes_it_for() -> None:
    """Its manifest has the name that routing knows without reading it, a guide and an icon."""
    own = kinds()[OWN]
    assert own.manifest.published_name == OWN_PUBLISHED_NAME == published_name(OWN)
    assert own.guide.startswith("## ")
    assert own.icon.startswith("<svg ")
    assert request_headers(OWN) == own.manifest.headers == {}


def test_another_package_brings_a_kind(install: Install, tmp_path: Path) -> None:
    """It is in the catalog with its guide, and a destination of it can be made and has its name and headers."""
    install()
    with Running(tmp_path / "data") as control:
        listed = [each["kind"] for each in control.api("GET", "/catalog").json["items"]]
        entry = control.api("GET", "/catalog/acme").json
        assert (listed, entry["origin"], entry["guide"]) == (
            [*own_ids(), "acme"],
            "acme_hookline 1.2",
            "## Set it up\n",
        )
        assert (entry["hasIcon"], control.api("GET", "/catalog/acme/icon.svg").status) == (False, 404)
        control.api("POST", "/sources", source())
        settings = {"webhooks": [{"url": "https://in.acme.example/hook"}]}
        made = control.api("POST", "/destinations", destination(kind="acme", settings=settings))
        assert made.status == 201
        event = {"type": "track", "event": "x", "userId": "u", "integrations": {"Acme": False}}
        routing = control.api("POST", "/destinations/crm/test", {"event": event, "dryRun": True}).json["routing"]
        assert routing["reason"] == "integrations_name_false"


def test_its_headers_are_sent(install: Install) -> None:
    """With each request, and a destination may not set them itself."""
    install()
    (written,) = RequestWriter(Settings()).requests(acme(), record("m1"), 0)
    assert b"\r\nX-Acme-Client: hookline\r\n" in written.data
    own = {"webhooks": [{"url": "https://in.acme.example/", "headers": {"x-acme-client": "other"}}]}
    assert [each.code for each in check_destination("", acme(settings=own))] == ["invalid_headers"]


def test_what_does_not_fit_a_kind(install: Install) -> None:
    """URLs of another beginning, and kinds that are not there."""
    install()
    assert check_destination("", acme()) == []
    assert [each.code for each in check_destination("", acme("https://other.example/"))] == ["invalid_url"]
    (problem,) = check_destination("d", acme(kind="nothing"))
    assert (problem.code, problem.path) == ("unknown_kind", "d.kind")
    assert problem.message.endswith(", acme")


@pytest.mark.parametrize(
    ("kind", "manifest"),
    [
        ("webhook", {}),
        ("acme", {"publishedName": "Webhooks"}),
        ("Not A Name", {}),
        ("acme", {"calls": ["delete everything"]}),
        ("acme", {"unknown": 1}),
        ("acme", {"headers": {"Host": "other"}}),
        ("acme", {"description": "x" * 1_000}),
    ],
)
def test_a_kind_that_cannot_be_used_is_left_out(install: Install, kind: str, manifest: dict[str, Any]) -> None:
    """Whatever is wrong with it, everything else works."""
    install(kind, **manifest)
    assert set(kinds()) == set(own_ids())
    assert kinds()[OWN].origin == "hookline"


def test_a_kind_that_is_gone(install: Install) -> None:
    """Its destinations go on under their kind's id, without its headers."""
    assert (published_name("acme"), request_headers("acme")) == ("acme", {})


def test_a_kind_that_takes_webhooks_since_its_package_was_exchanged(install: Install) -> None:
    """What is stored of its destinations is read all the same: unusable, with the reason, and no text is shown."""
    install()
    stored = {"id": "crm", "name": "CRM", "kind": "acme", "sources": ["site"], "settings": {"apiKey": "a-long-api-key"}}
    found: Destination = decode_object("destination", msgspec.json.encode(stored).decode())
    assert (found.id, found.kind, found.sources, found.settings) == ("crm", "acme", ("site",), stored["settings"])
    assert "Acme CRM takes webhooks now" in (why_unusable(found, Settings(), 0) or "")
    assert [(each.code, each.path) for each in check_destination("", found)] == [("invalid_settings", "settings")]
    assert "a-long-api-key" not in repr(redact(found))


def test_icon_and_unknown_kinds(asked: Running) -> None:
    """The icon is served as a picture; what is not there is said."""
    icon = asked.api("GET", "/catalog/webhook/icon.svg")
    assert icon.headers["content-type"].startswith("image/svg+xml")
    assert "default-src 'none'" in icon.headers["content-security-policy"]
    assert asked.api("GET", "/catalog/nothing").status == 404


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control that is only asked."""
    with Running(tmp_path_factory.mktemp("catalog") / "data") as control:
        yield control


def test_a_misspelt_kind_is_named_whatever_its_settings_are() -> None:
    """The sentence says which kind was meant; nothing is said of webhooks that it does not have."""
    made = msgspec.convert({"id": "a", "name": "A", "kind": "htpp", "settings": {"secrets": {}}}, Destination)
    (problem,) = check_destination("", made)
    assert (problem.code, problem.message) == ("unknown_kind", "there is no kind 'htpp'; did you mean 'http'?")
