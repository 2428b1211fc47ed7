"""What a role may do with secrets: only owners see them, and only owners say which receiver gets one by reference."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.unit.control.running import Answer, Running, destination, source

SECRET = "Bearer very-secret-token"
NUMBERS = count()
REFERENCE = "env:HOOKLINE_SECRET_CRM"


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    control_on_both.api("POST", "/sources", source())
    return control_on_both


def headed(value: str, url: str = "https://crm.example.com/hook", **fields: Any) -> dict[str, Any]:
    """A destination whose requests carry this Authorization."""
    settings = {"webhooks": [{"url": url, "headers": {"Authorization": value}}]}
    return destination(settings=settings, **fields)


def as_scope(control: Running, scope: str, method: str, path: str, body: object) -> Answer:
    """A call with a new token of this scope."""
    name = f"{scope}-{next(NUMBERS)}"
    text = control.api("POST", "/tokens", {"name": name, "scope": scope}).json["text"]
    return control.call(method, "/api/v1" + path, body, {"Authorization": f"Bearer {text}"})


def test_only_owners_reveal(control: Running) -> None:
    """An editor's test with reveal is refused, a dry run too; without it the value is masked."""
    control.api("POST", "/destinations", headed(SECRET))
    refused = as_scope(control, "write", "POST", "/destinations/crm/test", {"dryRun": True, "reveal": True})
    assert (refused.status, refused.json["code"], SECRET in refused.text) == (403, "forbidden", False)


def test_each_reveal_is_on_record(control: Running) -> None:
    """An owner sees the value, and the audit log has who asked for it, also where nothing was sent."""
    control.api("POST", "/destinations", headed(SECRET))
    shown = as_scope(control, "admin", "POST", "/destinations/crm/test", {"dryRun": True, "reveal": True})
    assert SECRET in shown.text
    (entry,) = control.api("GET", "/audit-log?action=reveal_secrets").json["items"]
    assert (entry["target"], entry["actor"].startswith("token admin-")) == ("destinations/crm", True)
    assert SECRET not in str(entry)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/destinations", headed(REFERENCE, id="mine")),
        ("POST", "/destinations", destination(id="mine", secret=REFERENCE)),
        ("PUT", "/destinations/mine", headed("file:crm", id="mine")),
        ("PATCH", "/destinations/crm", {"settings": headed(REFERENCE, "https://evil.example.net/")["settings"]}),
        ("PATCH", "/destinations/crm", {"settings": headed("env:HOOKLINE_SECRET_OTHER")["settings"]}),
        ("PATCH", "/destinations/crm", {"settings": {"sharedSecret": REFERENCE}}),
    ],
)
def test_an_editor_sends_no_reference_elsewhere(control: Running, method: str, path: str, body: Any) -> None:
    """A reference that a destination did not hold, or one that would go to another host, needs an owner."""
    assert control.api("POST", "/destinations", headed(REFERENCE)).status == 201
    refused = as_scope(control, "write", method, path, body)
    assert (refused.status, refused.json["code"]) == (403, "reference_needs_owner")
    assert refused.json["errors"][0]["pointer"].startswith("/settings/")
    assert as_scope(control, "admin", method, path, body).status < 300


def test_an_editor_works_with_a_reference_that_is_there(control: Running) -> None:
    """Other fields, another path of the same host, and leaving the reference out are an editor's."""
    control.api("POST", "/destinations", headed(REFERENCE))
    same_host = headed(REFERENCE, "https://crm.example.com/other")["settings"]
    for patch in ({"name": "New"}, {"settings": same_host}, {"settings": headed("Bearer own")["settings"]}):
        assert as_scope(control, "write", "PATCH", "/destinations/crm", patch).status == 200


def test_no_way_around_by_file_version_or_rotation(control: Running) -> None:
    """A file, the way back to an older version, and a rotation are held to the same rule."""
    control.api("POST", "/destinations", headed(REFERENCE))
    control.api(
        "PATCH", "/destinations/crm", {"settings": {**headed("x")["settings"], "sharedSecret": "s3cret-text-ab"}}
    )
    file = "sources: [{id: a, name: A}]\ndestinations: [{id: d, name: D, sources: [a], settings: "
    file += "{webhooks: [{url: 'https://evil.example.net/', headers: {X-Any: 'env:HOOKLINE_SECRET_CRM'}}]}}]"
    for path, body in (
        ("/connections/apply", {"document": file, "dryRun": True}),
        ("/connections/apply", {"document": file}),
        ("/destinations/crm/rotate-secret", {"secret": REFERENCE}),
        ("/connections/versions/2/roll-back", {}),
    ):
        refused = as_scope(control, "write", "POST", path, body)
        assert (refused.status, refused.json.get("code")) == (403, "reference_needs_owner"), (path, refused.text)
        assert as_scope(control, "admin", "POST", path, body).status == 200, path


def test_old_secrets_leave_the_history_on_request(control: Running) -> None:
    """With the destination, or afterwards; it is an editor's, on record, and what never was there is not found."""
    for id in ("one", "two"):
        control.api("POST", "/destinations", headed(f"Bearer secret-of-{id}", id=id))
    path = "/destinations/one?removeSecrets=true"
    assert as_scope(control, "write", "DELETE", path, None).status == 204
    control.api("DELETE", "/destinations/two")
    assert "secret-of-one" not in history(control)
    assert "secret-of-two" in history(control)
    answer = control.api("POST", "/destinations/two/remove-old-secrets", {})
    assert answer.json == {"destination": "two", "removed": True}
    assert "secret-of" not in history(control)
    assert control.api("GET", "/audit-log").json["items"][0]["action"] == "remove_old_secrets"
    assert control.api("POST", "/destinations/never/remove-old-secrets", {}).status == 404


def history(control: Running) -> str:
    """Every version of the connections, as it is stored."""
    store = control.services.store
    return repr([store.snapshot(version) for version in range(1, store.version + 1)])
