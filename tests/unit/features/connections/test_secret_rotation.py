"""Secrets made and rotated through the API."""

from __future__ import annotations

import pytest

from hookline.events.signature import standard_key
from tests.unit.control.running import Running, destination, source

SECRET = "a-long-shared-secret-9876"
NEW = "another-shared-secret-5432"
ROTATE = "/destinations/crm/rotate-secret"


@pytest.fixture
def signed(control: Running) -> Running:
    """Control with a destination that has a shared secret."""
    control.api("POST", "/sources", source())
    assert control.api("POST", "/destinations", destination(secret=SECRET)).status == 201
    return control


def stored_secret(control: Running) -> str | None:
    """The shared secret as the sender gets it."""
    stored = control.services.store.destination("crm")
    assert stored is not None
    return stored.object.settings.shared_secret


def test_a_rotation_shows_the_made_secret_once(signed: Running) -> None:
    """The answer holds the new secret; no later answer does, only which one is good until when."""
    answer = signed.api("POST", ROTATE, {"overlap": "24h"})
    assert (answer.status, answer.json["setting"]) == (200, "sharedSecret")
    secret = answer.json["secret"]
    assert stored_secret(signed) == secret != SECRET
    (rotation,) = answer.json["destination"]["rotations"]
    assert (rotation["setting"], rotation["previous"]) == ("sharedSecret", "…9876")
    assert rotation["until"] > rotation["since"]
    for path in ("/destinations/crm", "/destinations", "/connections/export"):
        text = signed.api("GET", path).text
        assert secret not in text
        assert SECRET not in text
    assert signed.api("GET", "/destinations/crm").json["rotations"] == [rotation]


def test_a_given_secret_is_not_shown(signed: Running) -> None:
    """Who gives a secret knows it; the answer has none, a body may be left out altogether otherwise."""
    answer = signed.api("POST", ROTATE, {"secret": NEW, "overlap": "1h"})
    assert (answer.status, answer.json["secret"], stored_secret(signed)) == (200, None, NEW)
    assert NEW not in answer.text


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({"overlap": "soon"}, 422, "invalid_overlap", "250ms"),
        ({"overlap": "91d"}, 422, "invalid_overlap", "90d"),
        ({"secret": SECRET}, 422, "secret_unchanged", "another one"),
        ({"secret": "keep"}, 422, "secret_unchanged", "stands for"),
        ({"secret": "…9876"}, 422, "secret_unchanged", "stands for"),
        ({"secret": ""}, 422, "invalid_secret", "empty"),
        ({"secret": "env:HOME"}, 422, "invalid_secret", "HOOKLINE_SECRET_"),
        ({"setting": "standardWebhooks"}, 422, "nothing_to_rotate", "no secret"),
        ({"setting": "other"}, 422, "invalid_object", "other"),
        ({"overlp": "1h"}, 422, "invalid_object", "overlp"),
        (b"{", 400, "malformed_json", "not JSON"),
    ],
)
def test_wrong_rotations_are_refused_with_a_sentence(
    signed: Running, body: object, status: int, code: str, words: str
) -> None:
    """Nothing is changed, and the sentence says what was wrong."""
    answer = signed.api("POST", ROTATE, body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert words in answer.json["detail"]
    assert stored_secret(signed) == SECRET
    assert signed.api("GET", "/destinations/crm").json["rotations"] == []


def test_a_destination_that_is_not_there(control: Running) -> None:
    """Neither call makes a destination."""
    for path in ("/destinations/nope/rotate-secret", "/destinations/nope/end-overlap"):
        assert (control.api("POST", path, {}).status, control.api("POST", path, {}).json["code"]) == (404, "not_found")


def test_an_overlap_is_ended_once(signed: Running) -> None:
    """While one runs another is refused; ended, it is gone from the object, and there is none to end."""
    signed.api("POST", ROTATE, {"secret": NEW})
    again = signed.api("POST", ROTATE, {})
    assert (again.status, again.json["code"]) == (409, "rotation_running")
    ended = signed.api("POST", "/destinations/crm/end-overlap", {})
    assert (ended.status, ended.json["rotations"]) == (200, [])
    answer = signed.api("POST", "/destinations/crm/end-overlap", {})
    assert (answer.status, answer.json["code"]) == (409, "nothing_rotating")
    assert stored_secret(signed) == NEW


def test_what_was_read_can_be_written_back(signed: Running) -> None:
    """A PUT of what GET gave, and a PATCH of something else, leave secret and overlap as they are."""
    signed.api("POST", ROTATE, {"secret": NEW})
    shown = signed.api("GET", "/destinations/crm").json
    put = signed.api("PUT", "/destinations/crm", {**shown, "name": "Other"})
    patched = signed.api("PATCH", "/destinations/crm", {"name": "Third"})
    assert put.json["rotations"] == patched.json["rotations"] == shown["rotations"] != []
    assert stored_secret(signed) == NEW


def test_the_old_secret_does_not_come_back_unasked(signed: Running) -> None:
    """A program that writes its old copy is refused with 409 instead of undoing the rotation."""
    signed.api("POST", ROTATE, {"secret": NEW})
    answer = signed.api("PUT", "/destinations/crm", destination(secret=SECRET))
    assert (answer.status, answer.json["code"]) == (409, "rotated_out")
    assert answer.json["errors"][0]["pointer"] == "/settings/sharedSecret"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_standard_webhooks_secret_is_made_and_shown_once(control: Running, method: str) -> None:
    """generate: true makes one wherever none is; the answer to that request is the only one that holds it."""
    control.api("POST", "/sources", source())
    body = destination()
    if method != "POST":
        control.api("POST", "/destinations", body)
    body["settings"]["standardWebhooks"] = {"generate": True}
    made = control.api(method, "/destinations" if method == "POST" else "/destinations/crm", body)
    secret = made.json["settings"]["standardWebhooks"]["secret"]
    assert len(standard_key(secret)) == 32
    shown = control.api("GET", "/destinations/crm").json["settings"]["standardWebhooks"]
    assert shown == {"secret": "…" + secret[-4:]}


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"generate": True}, 409, "secret_exists"),
        ({"generate": False}, 422, "invalid_object"),
        ({"generate": True, "secret": "whsec_x"}, 422, "invalid_object"),
        ({"generat": True}, 422, "invalid_object"),
    ],
)
def test_generating_never_replaces_a_secret(control: Running, given: dict[str, object], status: int, code: str) -> None:
    """Where a secret is stored only a rotation replaces it; half a wish is refused."""
    control.api("POST", "/sources", source())
    body = destination()
    body["settings"]["standardWebhooks"] = {"generate": True}
    before = control.api("POST", "/destinations", body).json["settings"]["standardWebhooks"]["secret"]
    answer = control.api("PATCH", "/destinations/crm", {"settings": {"standardWebhooks": given}})
    assert (answer.status, answer.json["code"]) == (status, code)
    rotated = control.api("POST", ROTATE, {})
    assert rotated.json["destination"]["rotations"][0]["previous"] == "…" + before[-4:]
    assert len(standard_key(rotated.json["secret"])) == 32
