"""A client certificate for a destination, from its page: shown, seen with its end, refused, and taken away."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service.deliver.certificates import DAY, Authority
from tests.service.harness import Hookline, Receiver, webhook
from tests.ui.conftest import sign_in


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
def hookline(tmp_path_factory: pytest.TempPathFactory, authority: Authority, asking: Receiver) -> Iterator[Hookline]:
    """A service with a pair in its secrets that no destination refers to yet."""
    secrets = tmp_path_factory.mktemp("secrets")
    secrets.chmod(0o700)
    for suffix, content in zip(("pem", "key"), authority.client("acme", ends=200 * DAY), strict=True):
        (secrets / f"crm.{suffix}").write_bytes(content)
    settings = {"deliver.ca_file": str(authority.file), "secrets.dir": str(secrets), "deliver.timeout": "20s"}
    crm = webhook("crm", asking.url(), name="CRM")
    with Hookline(tmp_path_factory.mktemp("mutual") / "h", [crm], settings=settings) as running:
        yield running


def test_a_certificate_is_shown_seen_and_taken_away(page: Page, hookline: Hookline, asking: Receiver) -> None:
    """A name that leads nowhere is refused at its field; the right one delivers and says whose it is and until when."""
    sign_in(page, hookline)
    page.goto("/destinations/crm/settings")
    part = page.locator("[data-part=client-certificate]")
    expect(part).to_contain_text("Off")
    part.get_by_role("button", name="Use a client certificate").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Certificate").fill("file:gone.pem")
    dialog.get_by_label("Key").fill("file:crm.key")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("cannot read file:gone.pem")
    dialog.get_by_label("Certificate").fill("file:crm.pem")
    dialog.get_by_role("button", name="Save").click()
    expect(part).to_contain_text("Sent to receivers that ask")
    expect(part).to_contain_text("CN=acme issued by CN=Test Authority, valid until")
    expires = hookline.api("GET", "destinations/crm/client-certificate").json["expiresAt"]
    expect(part.locator("time")).to_have_attribute("datetime", expires)
    hookline.wait_status(hookline.track(), "crm", "delivered")
    assert asking.callers[-1] == "acme"
    part.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(part).to_contain_text("Off")
    assert hookline.api("GET", "destinations/crm/client-certificate").status == 404
