"""ETag and If-Match: nobody overwrites what they have not seen."""

from __future__ import annotations

import pytest

from tests.unit.control.running import Answer, Running, destination, source


def call(control: Running, method: str, path: str, tag: str, body: object = None) -> Answer:
    """A call that is meant for one state of the object."""
    return control.call(method, "/api/v1" + path, body, {"If-Match": tag})


def test_a_change_is_made_only_on_what_was_seen(control: Running) -> None:
    """The tag changes with the object; one that is old is 412 for PATCH, PUT and DELETE, and changes nothing."""
    first = control.api("POST", "/sources", source()).headers["etag"]
    assert control.api("GET", "/sources/site").headers["etag"] == first
    second = call(control, "PATCH", "/sources/site", first, {"name": "New"}).headers["etag"]
    assert second != first
    for method, body in (("PATCH", {"name": "Old"}), ("PUT", source()), ("DELETE", None)):
        answer = call(control, method, "/sources/site", first, body)
        assert (answer.status, answer.json["code"]) == (412, "changed_meanwhile"), method
    assert control.api("GET", "/sources/site").json["name"] == "New"
    assert call(control, "DELETE", "/sources/site", f'"other", {second}').status == 204


def test_a_pause_is_a_change_too(control: Running) -> None:
    """What happens to the lane counts: whoever edits a destination sees it as it is."""
    control.api("POST", "/sources", source())
    tag = control.api("POST", "/destinations", destination()).headers["etag"]
    control.api("POST", "/destinations/crm/pause")
    assert call(control, "PATCH", "/destinations/crm", tag, {"name": "New"}).status == 412


@pytest.mark.parametrize("tag", ["*", '"1"'])
def test_what_is_not_there_matches_nothing(control: Running, tag: str) -> None:
    """With If-Match a PUT creates nothing."""
    assert call(control, "PUT", "/sources/site", tag, source()).status == 412
    assert control.api("GET", "/sources/site").status == 404


def test_people_have_tags(control: Running) -> None:
    """A role is changed only as it was seen."""
    control.api("POST", "/users", {"name": "vera"})
    tag = control.api("GET", "/users/u1").headers["etag"]
    assert control.api("PATCH", "/users/u1", {"disabled": True}).headers["etag"] != tag
    assert call(control, "PATCH", "/users/u1", tag, {"disabled": False}).status == 412
    assert call(control, "DELETE", "/users/u1", tag).status == 412
