"""Sources and destinations through the API."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hookline.connections.edits import Put
from hookline.features.connections.api import objects
from tests.unit.control.running import Running, destination, source

SECRET = "a-long-shared-secret-9876"


def test_a_source_is_created_read_and_deleted(control: Running) -> None:
    """POST answers 201 with the object and its address; it is there until it is deleted."""
    made = control.api("POST", "/sources", source())
    assert (made.status, made.headers["location"]) == (201, "/api/v1/sources/site")
    assert made.json == source()
    assert control.api("GET", "/sources/site").json == source()
    assert control.api("DELETE", "/sources/site").status == 204
    assert control.api("GET", "/sources/site").status == 404


@pytest.mark.parametrize("odd", [{"id": "site\n"}, {"writeKeys": ["wk\n"]}, {"batchBytes": 4_194_305}])
def test_a_source_that_is_none_is_refused(control: Running, odd: dict[str, Any]) -> None:
    """What ends in a line end, or asks for more than is bounded."""
    refused = control.api("POST", "/sources", source(**odd))
    assert (refused.status, refused.json["errors"][0]["pointer"].split("/")[1]) == (422, next(iter(odd)))


def test_a_source_without_keys_is_given_one(control: Running) -> None:
    """A source created without writeKeys can be sent to at once; an explicitly empty list stays empty."""
    keys = control.api("POST", "/sources", {"id": "a", "name": "A"}).json["writeKeys"]
    assert len(keys) == 1
    assert keys[0].startswith("wk_")
    assert control.api("POST", "/sources", {"id": "b", "name": "B", "writeKeys": []}).json["writeKeys"] == []


def test_an_id_is_taken_once(control: Running) -> None:
    """A second POST of the same id is 409 and changes nothing."""
    control.api("POST", "/sources", source())
    answer = control.api("POST", "/sources", source(name="Other"))
    assert (answer.status, answer.json["code"]) == (409, "already_exists")
    assert control.api("GET", "/sources/site").json["name"] == "Site"


def test_put_creates_then_replaces(control: Running) -> None:
    """PUT is 201 the first time and 200 afterwards, and replaces the whole object."""
    assert control.api("PUT", "/sources/site", source(type="web")).status == 201
    replaced = control.api("PUT", "/sources/site", {"id": "site", "name": "New"})
    assert (replaced.status, replaced.json["type"], replaced.json["writeKeys"]) == (200, "server", [])


def test_patch_merges(control: Running) -> None:
    """PATCH changes what it names, null goes back to the default, the rest stays."""
    control.api("POST", "/sources", source(type="web"))
    patched = control.api("PATCH", "/sources/site", {"name": "New", "type": None})
    assert patched.json == source(name="New", type="server")


def test_a_patch_undoes_nothing_that_came_between(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is applied in a thread just after a patch has read the object: what the file changed stays, and the patch
    is refused."""
    control.api("PUT", "/sources/site", source())
    merge, store = objects.merged, control.services.store

    def late(target: Any, patch: Any) -> Any:
        monkeypatch.setattr(objects, "merged", merge)
        stored = store.source("site")
        assert stored is not None
        store.change([Put(replace(stored.object, name="By the file"))], "file", None, dict)
        return merge(target, patch)

    monkeypatch.setattr(objects, "merged", late)
    assert control.api("PATCH", "/sources/site", {"enabled": False}).json["code"] == "changed_meanwhile"
    assert control.api("GET", "/sources/site").json["name"] == "By the file"
    assert control.api("PATCH", "/sources/site", {"enabled": False}).json["name"] == "By the file"


def test_an_id_never_changes(control: Running) -> None:
    """Neither PUT nor PATCH moves an object to another id."""
    control.api("POST", "/sources", source())
    for method in ("PUT", "PATCH"):
        answer = control.api(method, "/sources/site", source("other"))
        assert (answer.status, answer.json["code"]) == (422, "id_mismatch"), method
    assert [each["id"] for each in control.api("GET", "/sources").json["items"]] == ["site"]


def test_lists_come_in_pages(control: Running) -> None:
    """Following `after` visits every object once, in the order of ids, and ends with null."""
    for name in ("c", "a", "e", "b", "d"):
        control.api("POST", "/sources", source(name))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = control.api("GET", f"/sources?limit=2&after={after}" if after else "/sources?limit=2").json
        assert len(page["items"]) <= 2
        seen += [each["id"] for each in page["items"]]
        after = page["after"]
    assert seen == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x"])
def test_a_limit_out_of_bounds_is_refused(asked: Running, query: str) -> None:
    """Lists are bounded: a limit outside 1 to 200 is a problem that names the parameter."""
    answer = asked.api("GET", f"/sources?{query}")
    assert (answer.status, answer.json["code"]) == (400, "invalid_parameter")
    assert answer.json["errors"][0]["pointer"] == "?limit"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"type": "tv"}, "/type"),
        ({"enabled": "yes"}, "/enabled"),
        ({"writeKeys": ["has space"]}, "/writeKeys/0"),
        ({"id": "no spaces"}, "/id"),
        ({"nmae": "typo"}, ""),
    ],
)
def test_a_wrong_field_is_pointed_at(asked: Running, change: dict[str, Any], pointer: str) -> None:
    """What does not fit the object's shape is 422 with a JSON pointer to it."""
    answer = asked.api("POST", "/sources", {**source(), **change})
    assert (answer.status, answer.json["code"]) == (422, "invalid_object")
    assert answer.json["errors"][0]["pointer"] == pointer


def test_rules_between_objects_are_checked(control: Running) -> None:
    """Unknown sources, keys used twice and bad URLs are refused with the rule's own code and place."""
    control.api("POST", "/sources", source())
    key = control.api("POST", "/sources", source("other", writeKeys=["wk_site"]))
    assert (key.json["code"], key.json["errors"][0]["pointer"]) == ("duplicate_write_key", "/writeKeys/0")
    fed = control.api("POST", "/destinations", destination(sources=["nope"]))
    assert (fed.json["code"], fed.json["errors"][0]["pointer"]) == ("unknown_source", "/sources/0")
    wrong = destination(settings={"webhooks": [{"url": "ftp://example.com"}]})
    url = control.api("POST", "/destinations", wrong)
    assert (url.json["code"], url.json["errors"][0]["pointer"]) == ("invalid_url", "/settings/webhooks/0/url")


def test_a_source_in_use_stays(control: Running) -> None:
    """A source that feeds a destination is not deleted: 409 names the destination."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    answer = control.api("DELETE", "/sources/site")
    assert (answer.status, answer.json["code"]) == (409, "source_in_use")
    assert "crm" in answer.json["detail"]


def test_secrets_never_come_back(control: Running) -> None:
    """No answer about a destination holds its shared secret or a credential header, only the last four characters."""
    control.api("POST", "/sources", source())
    body = destination(secret=SECRET)
    body["settings"]["webhooks"][0]["headers"] = {"Authorization": "Bearer very-secret-token-1234"}
    made = control.api("POST", "/destinations", body)
    for answer in (
        made,
        control.api("GET", "/destinations"),
        control.api("GET", "/destinations/crm"),
        control.api("PATCH", "/destinations/crm", {"name": "X"}),
        control.api("GET", "/connections/export"),
    ):
        assert SECRET not in answer.text
        assert "very-secret" not in answer.text
    assert made.json["settings"]["sharedSecret"] == "…9876"


@pytest.mark.parametrize("sent", ["…9876", "keep"])
def test_a_mask_sent_back_leaves_the_secret(control: Running, sent: str) -> None:
    """Writing back what was read, or `keep`, changes the rest and keeps the stored secret."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination(secret=SECRET))
    assert control.api("PUT", "/destinations/crm", destination(secret=sent, name="New")).status == 200
    stored = control.services.store.destination("crm")
    assert stored is not None
    assert (stored.object.name, stored.object.settings.shared_secret) == ("New", SECRET)


def test_null_takes_a_secret_away(control: Running) -> None:
    """A merge patch of null removes the shared secret."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination(secret=SECRET))
    patched = control.api("PATCH", "/destinations/crm", {"settings": {"sharedSecret": None}})
    assert patched.json["settings"].get("sharedSecret") is None


def test_a_change_that_keeps_the_lane_keeps_it(control: Running) -> None:
    """Renaming a destination does not reset its lane; a destination made later begins at the journal's end."""
    from tests.unit.control.running import record

    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    lane = control.services.store.snapshot().lanes["crm"]
    control.append(record("m1"))
    control.api("PATCH", "/destinations/crm", {"name": "Renamed"})
    control.api("POST", "/destinations", destination("later"))
    lanes = control.services.store.snapshot().lanes
    assert lanes["crm"] == lane
    assert lanes["later"].sources == {"site": {0: 1}}
