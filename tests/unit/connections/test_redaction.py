"""Destinations shown without secrets, and taken back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hookline.connections.model import Destination, Webhook, WebhookSettings
from hookline.connections.secrets import NothingToKeep, redact, restore
from hookline.kinds.model import KindSettings, Request
from tests.unit.connections.examples import destination

STORED = destination(
    secret="abcdefghijklmnop", headers={"Authorization": "Bearer 0123456789", "X-Ref": "1", "X-Token": "file:t"}
)


def headers(shown: Destination) -> dict[str, str]:
    """The headers of the first webhook."""
    return shown.settings.webhooks[0].headers


def test_secrets_are_masked() -> None:
    """The shared secret and headers that carry credentials are hidden; references and other headers are not."""
    shown = redact(STORED)
    assert shown.settings.shared_secret == "…mnop"
    assert headers(shown) == {"Authorization": "…6789", "X-Ref": "1", "X-Token": "file:t"}


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_shown_can_come_back(keep: bool) -> None:
    """Sending back what was shown, masked or with keep, is no change."""
    assert restore(redact(STORED, keep=keep), STORED) == STORED


def test_a_new_secret_is_taken() -> None:
    """What is neither keep nor a mask is the new value, and a key left out is removed."""
    assert restore(destination(secret="new"), STORED) == destination(secret="new")
    assert restore(destination(), STORED) == destination()


@pytest.mark.parametrize("written", ["keep", "…mnop", "…"])
def test_nothing_to_keep(written: str) -> None:
    """A new destination has nothing to keep, and a mask must be the stored secret's."""
    with pytest.raises(NothingToKeep) as nothing:
        restore(destination(secret=written), None)
    assert nothing.value.path == "settings.sharedSecret"
    with pytest.raises(NothingToKeep):
        restore(destination(secret="…zzzz"), STORED)


def test_a_credential_stays_with_its_receiver() -> None:
    """A header's secret follows a changed path, but never to another host."""
    kept = {"Authorization": "keep"}
    same = restore(destination(url="https://crm.example.com/other", headers=kept), STORED)
    assert headers(same) == {"Authorization": "Bearer 0123456789"}
    with pytest.raises(NothingToKeep) as nothing:
        restore(destination(url="https://evil.example.com/hook", headers=kept), STORED)
    assert nothing.value.path == "settings.webhooks[0].headers.Authorization"


def test_a_client_secret_stays_with_its_token_url() -> None:
    """Also where a part of the URL is another setting: who changes that sends the secret to another host."""

    def fetching(host: str, secret: str) -> Destination:
        auth = {"type": "oauth2", "tokenUrl": "https://{{settings.variables.host}}/token", "clientId": "me"}
        return Destination(
            id="crm",
            name="CRM",
            kind="http",
            settings=KindSettings({"auth": {**auth, "clientSecret": secret}, "variables": {"host": host}}),
            mapping=(Request(name="all", url="https://api.example.com/events"),),
        )

    stored = fetching("login.example.com", "s3cr3t-s3cr3t")
    assert restore(redact(stored), stored) == stored
    with pytest.raises(NothingToKeep) as nothing:
        restore(fetching("evil.example.com", "keep"), stored)
    assert nothing.value.path == "settings.auth.clientSecret"


def test_an_ordinary_header_may_say_keep() -> None:
    """Only credentials are kept; elsewhere the word is a value like any other."""
    assert headers(restore(destination(headers={"X-Mode": "keep"}), None)) == {"X-Mode": "keep"}


def test_each_of_two_urls_of_one_host_keeps_its_credential() -> None:
    """Also where the path of one changes, if its mask says whose it is; ``keep`` alone does not."""
    stored = two_urls("a", "b")
    moved = ("a", "b/v2")
    for keep in (True, False):
        assert restore(redact(stored, keep=keep), stored) == stored
    shown = two_urls(*moved, credentials=("…1111", "…2222"))
    assert restore(shown, stored) == two_urls(*moved)
    with pytest.raises(NothingToKeep) as nothing:
        restore(two_urls(*moved, credentials=("keep", "keep")), stored)
    assert nothing.value.path == "settings.webhooks[1].headers.Authorization"


def two_urls(
    *paths: str, credentials: tuple[str, ...] = ("Bearer aaaaaaaaaaaa1111", "Bearer bbbbbbbbbbbb2222")
) -> Destination:
    """A destination of two URLs of one host, each with its own credential."""
    webhooks = tuple(
        Webhook(url=f"https://api.example.com/{path}", headers={"Authorization": credential})
        for path, credential in zip(paths, credentials, strict=True)
    )
    return replace(destination(), settings=WebhookSettings(webhooks=webhooks))
