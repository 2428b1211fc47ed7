"""Previews in the admin API, beside a profiles role that is stepped by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hookline.database.open import ensure
from hookline.database.sqlite import connect
from hookline.features.audiences.service import DefinitionWatch, preview_requests
from hookline.features.privacy.service import deletion_requests
from hookline.people.previews import KEPT_MS, PREVIEWS_MAX
from hookline.people.role import ProfilesRole
from tests.unit.control.running import Answer, Running, record, source

TWICE = {"event": "Order", "count": {"gte": 2}}
SPEND = {"event": "Order", "aggregate": "sum", "property": "properties.total"}
PATH = "/audience-previews"


@pytest.fixture
def sent(control: Running) -> Running:
    """Control with events of three people, and no profiles."""
    assert control.api("POST", "/sources", source()).status == 201
    control.append(
        *(record(f"m{n}", "Order", userId=user, properties={"total": n}) for n, user in enumerate(("u1", "u1", "u2"))),
        *(record(f"a{n}", "Order", userId=None, anonymousId="anon") for n in range(2)),
    )
    return control


@pytest.fixture
def role(sent: Running) -> Iterator[ProfilesRole]:
    """The role, on a file that the first preview made."""
    found = ProfilesRole(sent.services.settings)
    yield found
    found.close()


def ask(control: Running, body: dict[str, Any]) -> str:
    """Ask for a preview and return its id."""
    asked = control.api("POST", PATH, body)
    assert (asked.status, asked.json["state"], asked.json["people"]) == (202, "reading", None)
    return str(asked.json["id"])


def get(control: Running, id: str) -> Answer:
    """The preview."""
    return control.api("GET", f"{PATH}/{id}")


def test_it_is_asked_for_before_there_are_profiles(sent: Running) -> None:
    """It waits as what it is, and the file is made by which the role is started."""
    id = ask(sent, {"condition": TWICE})
    assert get(sent, id).json == {
        "id": id, "state": "reading", "progress": 0.0, "people": None, "members": None, "sample": [], "detail": None,
        "comparison": None,
    }  # fmt: skip
    DefinitionWatch(sent.services.settings, sent.services.store).look()
    assert (sent.data_path / "profiles.db").exists()
    assert get(sent, id).json["state"] == "reading"


def test_without_a_wish_there_is_no_file(sent: Running) -> None:
    """Nobody pays for profiles before somebody asks for them."""
    DefinitionWatch(sent.services.settings, sent.services.store).look()
    assert not (sent.data_path / "profiles.db").exists()


def test_it_finds_people_of_both_kinds(sent: Running, role: ProfilesRole) -> None:
    """The size, and a sample with user ids, or an anonymous id for who has none."""
    id = ask(sent, {"condition": TWICE})
    while role.work():
        pass
    found = get(sent, id).json
    assert (found["state"], found["progress"], found["people"], found["members"]) == ("done", 1.0, 3, 2)
    assert [(each["userId"], each["anonymousId"]) for each in found["sample"]] == [("u1", None), (None, "anon")]


def test_two_conditions_are_compared(sent: Running, role: ProfilesRole) -> None:
    """Who is found by both, only by the first, only by the second, with a sample of each; and without a second, none
    of it."""
    id = ask(sent, {"condition": TWICE, "against": {"event": "Order", "where": "properties.total >= 1"}})
    while role.work():
        pass
    found = get(sent, id).json
    assert (found["people"], found["members"]) == (3, 2)
    assert [each["userId"] or each["anonymousId"] for each in found["sample"]] == ["u1", "anon"]
    comparison = {
        name: [each["userId"] or each["anonymousId"] for each in value] if name.endswith("Sample") else value
        for name, value in found["comparison"].items()
    }
    assert comparison == {
        "members": 2, "kept": 1, "added": 1, "removed": 1,
        "keptSample": ["u1"], "addedSample": ["anon"], "removedSample": ["u2"],
    }  # fmt: skip
    deletion_requests(sent.services).create(["u1"], "delete", "somebody")
    deletion_requests(sent.services).create(["u2"], "suppress", "somebody")
    found = get(sent, id).json
    samples = (found["comparison"][f"{side}Sample"] for side in ("kept", "added", "removed"))
    assert [each["anonymousId"] for some in (found["sample"], *samples) for each in some] == ["anon", "anon"]
    alone = ask(sent, {"condition": TWICE, "replaces": id})
    while role.work():
        pass
    assert (get(sent, alone).json["comparison"], get(sent, id).status) == (None, 404)


def test_the_members_of_a_saved_audience_are_compared_with(sent: Running, role: ProfilesRole) -> None:
    """As its last sync left them: what an edit would change."""
    assert sent.api("POST", "/audiences", {"id": "a", "name": "A", "condition": TWICE}).status == 201
    id = ask(sent, {"condition": {"event": "Order"}, "against": {"audience": "a"}})
    while role.work():
        pass
    comparison = get(sent, id).json["comparison"]
    assert (comparison["members"], comparison["kept"], comparison["added"], comparison["removed"]) == (2, 2, 1, 0)


def test_one_that_is_replaced_makes_room(sent: Running, role: ProfilesRole) -> None:
    """Whoever types a condition asks for many, one after the other, taken up or not; only the last is counted."""
    id = ask(sent, {"condition": {"event": "E"}})
    for n in range(PREVIEWS_MAX + 2):
        id = ask(sent, {"condition": {"event": f"E{n}"}, "replaces": id})
        if n % 2:
            role.previews.follow(int(time.time() * 1000))
    assert len(preview_requests(sent.services).asked(0)) <= 1
    while role.work():
        pass
    assert get(sent, id).json["state"] == "done"


def test_of_a_computed_trait_the_values_are_shown(sent: Running, role: ProfilesRole) -> None:
    """Id and name may be left out; people without numbers have the sum of nothing and do not count."""
    id = ask(sent, {"computedTrait": SPEND})
    while role.work():
        pass
    found = get(sent, id).json
    assert {each["userId"]: each["value"] for each in found["sample"]} == {"u1": 1, "u2": 2}
    assert (found["people"], found["members"]) == (3, 2)


def test_what_could_not_be_saved_cannot_be_previewed(sent: Running) -> None:
    """With a pointer to what is wrong, as when it is saved."""
    for body, pointer, code in (
        ({"condition": {"event": "Order", "within": "soon"}}, "/condition/within", "invalid_definition"),
        ({"condition": {"audience": "nope"}}, "/condition/audience", "unknown_definition"),
        ({"condition": {"all": [{"event": ""}]}}, "/condition/all/0/event", "invalid_definition"),
        ({"condition": TWICE, "against": {"page": ""}}, "/against/page", "invalid_definition"),
        ({"computedTrait": {**SPEND, "property": "total"}}, "/computedTrait/property", "invalid_definition"),
        ({"computedTrait": {**SPEND, "aggregate": "most"}}, "/computedTrait/aggregate", "invalid_object"),
        ({"computedTrait": {"event": "Order"}}, "/computedTrait/aggregate", "invalid_object"),
    ):
        answer = sent.api("POST", PATH, body)
        assert (answer.status, answer.json["code"]) == (422, code), answer.text
        assert answer.json["errors"][0]["pointer"] == pointer
    for wrong in (
        {},
        {"computedTrait": SPEND, "against": TWICE},
        {"condition": TWICE, "computedTrait": SPEND},
        {"condition": {"events": "x"}},
        {"other": 1},
    ):
        assert sent.api("POST", PATH, wrong).status == 422, wrong
    assert preview_requests(sent.services).asked(0) == []


def test_an_audience_called_preview_can_be_referred_to(sent: Running, role: ProfilesRole) -> None:
    """What is previewed has no id yet, so nothing refers back to it."""
    saved = {"id": "preview", "name": "Preview", "destinations": [], "condition": TWICE}
    assert sent.api("POST", "/audiences", saved).status == 201
    ask(sent, {"condition": {"audience": "preview"}})


def test_nobody_is_synced_and_nothing_is_saved(sent: Running, role: ProfilesRole) -> None:
    """No audience, no line in the audit log, no message to tell."""
    logged = len(sent.api("GET", "/audit-log").json["items"])
    ask(sent, {"condition": TWICE})
    while role.work():
        pass
    assert role.sync.to_send(int(time.time() * 1000)) is None
    assert sent.api("GET", "/audiences").json["items"] == []
    assert len(sent.api("GET", "/audit-log").json["items"]) == logged


def test_too_many_are_refused_until_one_is_done(sent: Running, role: ProfilesRole) -> None:
    """Ten under way, taken up or not; finished ones make room."""
    for n in range(PREVIEWS_MAX):
        ask(sent, {"condition": {"event": f"E{n}"}})
    assert sent.api("POST", PATH, {"condition": TWICE}).json["code"] == "too_many_previews"
    role.previews.follow(int(time.time() * 1000))
    assert sent.api("POST", PATH, {"condition": TWICE}).json["code"] == "too_many_previews"
    while role.work():
        pass
    id = ask(sent, {"condition": TWICE})
    while role.work():
        pass
    assert get(sent, id).json["members"] == 2


def test_one_that_is_gone_is_not_found(sent: Running, role: ProfilesRole) -> None:
    """After an hour, and one that never was."""
    id = ask(sent, {"condition": TWICE})
    while role.work():
        pass
    role.previews.follow(int(time.time() * 1000) + KEPT_MS)
    assert get(sent, id).status == 404
    assert get(sent, "prv_nope").json["code"] == "not_found"
    for wrong in ("..%2Fadmin-token", "%2E%2E", "prv_%00", "prv_" + "x" * 300):
        assert get(sent, wrong).status == 404, wrong


def test_one_that_nobody_takes_says_so(sent: Running) -> None:
    """After half a minute, with what to look at."""
    id = ask(sent, {"condition": TWICE})
    file = sent.data_path / "run" / "previews" / id
    before = time.time() - 60
    os.utime(file, (before, before))
    found = get(sent, id).json
    assert found["state"] == "reading"
    assert "check that it runs" in found["detail"]


def test_a_file_of_an_older_version_is_no_file_yet(sent: Running) -> None:
    """The role brings it to this version when it starts; until then nothing is known, and nothing fails."""
    ensure(sent.data_path / "profiles.db", "profiles")
    with closing(connect(sent.data_path / "profiles.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'profiles_0003'")
        connection.execute("DROP TABLE previews")
    id = ask(sent, {"condition": TWICE})
    assert get(sent, id).json["state"] == "reading"


def test_one_that_nobody_takes_goes(sent: Running) -> None:
    """Where no role profiles runs, nothing piles up."""
    ask(sent, {"condition": TWICE})
    now_ms = int(time.time() * 1000)
    assert len(preview_requests(sent.services).asked(now_ms)) == 1
    assert preview_requests(sent.services).asked(now_ms + KEPT_MS + 1_000) == []
    assert not list((sent.data_path / "run" / "previews").iterdir())
