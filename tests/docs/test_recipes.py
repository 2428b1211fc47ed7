"""docs/how-to/recipes.md: each recipe is a good configuration, and sends what the product's documentation asks for."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from hookline.connections.file import check_text
from tests.docs.pages import DOCS
from tests.unit.kinds.stand_in import TIMESTAMP, Sent, StandIn, call

PAGE = DOCS / "how-to" / "recipes.md"
SECRETS = {
    "HOOKLINE_SECRET_DISCORD_URL": "https://discord.com/api/webhooks/1122334455/aBc-D_eF",
    "HOOKLINE_SECRET_TEAMS_URL": "https://prod-1.westeurope.logic.azure.com:443/workflows/1f/triggers/manual/paths/invoke"
    "?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=a_B-c",
    "HOOKLINE_SECRET_ZAPIER_URL": "https://hooks.zapier.com/hooks/catch/123/abc/",
    "HOOKLINE_SECRET_MAKE_URL": "https://hook.eu2.make.com/abcdefghijklmnop",
    "HOOKLINE_SECRET_MAKE_KEY": "make-key",
    "HOOKLINE_SECRET_N8N_URL": "https://n8n.example.com/webhook/5e884898-da28-4711-a1b2-0123456789ab",
    "HOOKLINE_SECRET_N8N_TOKEN": "n8n-token",
}
CARD_BYTES_MAX = 28 * 1024


def blocks() -> dict[str, str]:
    """Return the recipes by the id of their destination."""
    found = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {yaml.safe_load(block)["destinations"][0]["id"]: block for block in found}


def recipe(id: str) -> StandIn:
    """Return a recipe as a destination whose secrets are resolved."""
    (written,) = yaml.safe_load(blocks()[id])["destinations"]
    secrets = written["settings"]["secrets"]
    resolved = {name: SECRETS[reference.removeprefix("env:")] for name, reference in secrets.items()}
    return StandIn("http", written["mapping"], secrets=resolved)


def sent(id: str, **fields: Any) -> Sent:
    """Return the only request that a recipe makes of an order."""
    order = {"total": 99.5, "currency": "EUR", "address": {"city": "Bern"}}
    made = recipe(id).one(call("track", **({"properties": order, "context": {"traits": {"email": "a@b.ch"}}} | fields)))
    assert (made.method, made.headers["content-type"]) == ("POST", "application/json")
    assert not recipe(id).sends(call("page"))
    return made


@pytest.mark.parametrize("id", ["discord", "teams", "zapier", "make", "n8n"])
def test_a_recipe_is_a_good_configuration(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people paste into their file passes the check, with the secrets that it names."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert check_text("sources: [{id: site, name: Site, writeKeys: [wk_site]}]\n" + blocks()[id]) == []


def test_discord() -> None:
    """An embed within Discord's lengths that calls nobody, to the webhook's own URL."""
    made = sent("discord", properties={"text": "y" * 9_000})
    assert made.url == SECRETS["HOOKLINE_SECRET_DISCORD_URL"] + "?wait=true"
    (embed,) = made.json["embeds"]
    assert len(embed["description"]) == 4_000
    assert (embed["timestamp"], embed["footer"]) == (TIMESTAMP, {"text": "u1"})
    assert made.json["allowed_mentions"] == {"parse": []}
    (outcome,) = recipe("discord").after(429, {"retry_after": 1.5}, headers={"Retry-After": "2"})
    assert outcome.startswith("retry 429 after 2")


def test_teams() -> None:
    """A message with one adaptive card whose texts are texts; the whole URL with its signature stays as it is."""
    made = sent("teams")
    assert made.url == SECRETS["HOOKLINE_SECRET_TEAMS_URL"].replace(":443", "")
    assert len(made.body) < CARD_BYTES_MAX
    assert made.json["type"] == "message"
    (attachment,) = made.json["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["contentUrl"] is None
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    title, facts = card["body"]
    assert (title["type"], title["text"]) == ("TextBlock", "Order Completed")
    values = {each["title"]: each["value"] for each in facts["facts"]}
    assert values == {"User": "u1", "Total": "99.5 EUR", "Time": TIMESTAMP}
    assert recipe("teams").after(202, b"") == ["accepted"]


def test_zapier() -> None:
    """A flat object with an id to drop repeats by."""
    made = sent("zapier")
    assert made.url == SECRETS["HOOKLINE_SECRET_ZAPIER_URL"]
    assert made.json == {
        "id": "m-1",
        "event": "Order Completed",
        "userId": "u1",
        "email": "a@b.ch",
        "timestamp": TIMESTAMP,
        "properties": {"total": 99.5, "currency": "EUR", "address_city": "Bern"},
    }
    assert recipe("zapier").after(200, {"status": "success"}) == ["accepted"]


def test_make() -> None:
    """The key goes in Make's header, and a full queue is tried again."""
    made = sent("make")
    assert made.url == SECRETS["HOOKLINE_SECRET_MAKE_URL"]
    assert made.headers["x-make-apikey"] == "make-key"
    assert (made.json["event"], made.json["messageId"]) == ("Order Completed", "m-1")
    outcomes = [
        recipe("make").after(status, text)[0] for status, text in ((200, b"Accepted"), (400, b"Queue is full."))
    ]
    assert outcomes == ["accepted", "retry 400: Queue is full."]


def test_n8n() -> None:
    """The header that the node asks for, and the fields of both types."""
    made = sent("n8n")
    assert (made.url, made.headers["x-hookline-token"]) == (SECRETS["HOOKLINE_SECRET_N8N_URL"], "n8n-token")
    assert made.json["properties"]["total"] == 99.5
    assert recipe("n8n").one(call("identify")).json["traits"] == {"email": "ada@example.com", "age": 36}
    assert recipe("n8n").after(404, {"message": "not registered"})[0].startswith("blames 404")
