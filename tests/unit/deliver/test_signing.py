"""What requests are signed with beyond one X-Signature: Standard Webhooks, and two secrets while one rotates."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from msgspec.structs import replace

from hookline.connections.edits import Put
from hookline.connections.model import Destination, SecretSetting, StandardWebhooks
from hookline.connections.rotation import rotate
from hookline.deliver.send.request import SignedTemplate, Template
from tests.unit.deliver.rig import Request, Rig, destination, source

OLD, NEW = "the-old-shared-secret", "the-new-shared-secret"
WHSEC_OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WHSEC_NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()


def standard(id: str = "crm", secret: str = WHSEC_OLD, shared: str | None = None) -> Destination:
    """A destination that asks for Standard Webhooks, and for X-Signature if ``shared`` is given."""
    made = destination(id, secret=shared)
    return replace(made, settings=replace(made.settings, standard_webhooks=StandardWebhooks(secret=secret)))


def begin(rig: Rig, wanted: Destination, *messages: str) -> None:
    """Start with one destination and these events."""
    rig.change(source(), wanted)
    rig.start()
    rig.append(*messages)
    rig.turn()


def rotated(rig: Rig, setting: SecretSetting, secret: str, overlap_seconds: float) -> None:
    """Rotate a secret of the destination ``crm`` as control does, and let the role learn of it."""
    stored = rig.store.destination("crm")
    assert stored is not None
    new = rotate(stored.object, setting, secret, overlap_seconds, rig.clock.now_ms())
    rig.change(Put(new, rotating=True))
    rig.follow()


def sent(rig: Rig, message_id: str) -> Request:
    """Send one more event, let it be taken, and return its request."""
    rig.append(message_id)
    rig.turn()
    request = rig.network.waiting[-1]
    rig.answer_all()
    return request


def parts(request: Request) -> tuple[dict[str, str], bytes]:
    """Headers by lower-case name, and the body."""
    head, _, body = request.data.partition(b"\r\n\r\n")
    lines = [line.decode("latin-1").split(": ", 1) for line in head.split(b"\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    assert len(headers) == len(lines)
    assert int(headers["content-length"]) == len(body)
    return headers, body


def hex_by(secret: str, body: bytes) -> str:
    """The X-Signature that a receiver with this secret expects."""
    return hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()


def standard_by(secret: str, headers: dict[str, str], body: bytes) -> str:
    """The signature that a Standard Webhooks receiver with this secret expects."""
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def test_standard_webhooks_headers_stand_beside_x_signature(rig: Rig) -> None:
    """One request carries both ways of signing, each over exactly the bytes sent."""
    begin(rig, standard(shared=OLD), "m-1")
    headers, body = parts(rig.network.sent[0])
    assert headers["webhook-id"] == headers["x-message-id"] == "m-1"
    assert headers["webhook-timestamp"] == str(rig.clock.now_ms() // 1000)
    assert headers["webhook-signature"] == standard_by(WHSEC_OLD, headers, body)
    assert headers["x-signature"] == hex_by(OLD, body)
    assert "x-signature-next" not in headers


def test_a_retry_keeps_the_id_and_has_its_own_time(rig: Rig) -> None:
    """The id names the message, the timestamp the attempt, so that a receiver may refuse old ones."""
    begin(rig, standard(), "m-1")
    rig.answer_all(500)
    rig.checkpoint()
    rig.pass_time(100)
    (first, _), (second, body) = (parts(request) for request in rig.network.sent)
    assert first["webhook-id"] == second["webhook-id"] == "m-1"
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 100
    assert second["webhook-signature"] == standard_by(WHSEC_OLD, second, body) != first["webhook-signature"]


def test_without_a_shared_secret_numbers_stay_as_written(rig: Rig) -> None:
    """Standard Webhooks are checked over the raw bytes, so a number beyond JavaScript's precision survives."""
    body = b'{"type":"track","event":"E","userId":"u","properties":{"n":9007199254740993,"x":1.0}}'
    begin(rig, standard())
    rig.append(rig.record("m-1", body=body))
    rig.turn()
    headers, sent_body = parts(rig.network.sent[0])
    assert b'"n":9007199254740993,"x":1.0' in sent_body
    assert headers["webhook-signature"] == standard_by(WHSEC_OLD, headers, sent_body)


def test_a_full_stop_in_a_message_id_is_escaped_for_the_signature(rig: Rig) -> None:
    """No messageId can make one signed content read as another; X-Message-Id stays as it always was."""
    begin(rig, standard(), "a.1700000000.b c")
    headers, body = parts(rig.network.sent[0])
    assert (headers["x-message-id"], headers["webhook-id"]) == ("a.1700000000.b%20c", "a%2E1700000000%2Eb%20c")
    assert headers["webhook-signature"] == standard_by(WHSEC_OLD, headers, body)


def test_in_the_overlap_x_signature_stays_and_the_new_one_is_added(rig: Rig) -> None:
    """A receiver with the old secret sees no difference until the overlap ends; then, to the millisecond, only the new
    secret signs, without anybody changing anything."""
    begin(rig, destination("crm", secret=OLD))
    rotated(rig, "sharedSecret", NEW, 60)
    headers, body = parts(sent(rig, "m-1"))
    assert (headers["x-signature"], headers["x-signature-next"]) == (hex_by(OLD, body), hex_by(NEW, body))
    rig.clock.seconds += 59.999
    assert "x-signature-next" in parts(sent(rig, "m-2"))[0]
    rig.clock.seconds += 0.001
    headers, body = parts(sent(rig, "m-3"))
    assert headers["x-signature"] == hex_by(NEW, body)
    assert "x-signature-next" not in headers


def test_in_the_overlap_standard_webhooks_have_two_signatures(rig: Rig) -> None:
    """Both stand in the one header, separated by a space, and the old one goes when the overlap ends."""
    begin(rig, standard())
    rotated(rig, "standardWebhooks", WHSEC_NEW, 60)
    headers, body = parts(sent(rig, "m-1"))
    assert headers["webhook-signature"].split(" ") == [
        standard_by(secret, headers, body) for secret in (WHSEC_NEW, WHSEC_OLD)
    ]
    rig.clock.seconds += 60
    headers, body = parts(sent(rig, "m-2"))
    assert headers["webhook-signature"] == standard_by(WHSEC_NEW, headers, body)


def test_each_secret_rotates_by_itself(rig: Rig) -> None:
    """A destination with both ways of signing rotates one without touching the other."""
    begin(rig, standard(shared=OLD))
    rotated(rig, "sharedSecret", NEW, 60)
    headers, body = parts(sent(rig, "m-1"))
    assert headers["x-signature-next"] == hex_by(NEW, body)
    assert headers["webhook-signature"] == standard_by(WHSEC_OLD, headers, body)


@pytest.mark.parametrize("passed_seconds", [30.0, 90.0])
def test_a_restart_changes_nothing_about_the_overlap(rig: Rig, passed_seconds: float) -> None:
    """Killed in the overlap, the role goes on with it; started after its end, it signs with the new secret alone."""
    begin(rig, destination("crm", secret=OLD))
    rotated(rig, "sharedSecret", NEW, 60)
    rig.kill()
    rig.clock.seconds += passed_seconds
    rig.start()
    headers, body = parts(sent(rig, "m-1"))
    expected = (hex_by(OLD, body), hex_by(NEW, body)) if passed_seconds < 60 else (hex_by(NEW, body), None)
    assert (headers["x-signature"], headers.get("x-signature-next")) == expected


def test_no_overlap_is_the_new_secret_at_once(rig: Rig) -> None:
    """After a leak nothing is signed with the old secret any more."""
    begin(rig, destination("crm", secret=OLD))
    rotated(rig, "sharedSecret", NEW, 0)
    headers, body = parts(sent(rig, "m-1"))
    assert headers["x-signature"] == hex_by(NEW, body)
    assert "x-signature-next" not in headers


def test_both_secrets_may_be_references(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old and the new secret are resolved where requests are signed; what is in the database names them only."""
    monkeypatch.setenv("HOOKLINE_SECRET_ONE", WHSEC_OLD)
    monkeypatch.setenv("HOOKLINE_SECRET_TWO", WHSEC_NEW)
    begin(rig, standard(secret="env:HOOKLINE_SECRET_ONE"))
    rotated(rig, "standardWebhooks", "env:HOOKLINE_SECRET_TWO", 60)
    headers, body = parts(sent(rig, "m-1"))
    both = " ".join(standard_by(secret, headers, body) for secret in (WHSEC_NEW, WHSEC_OLD))
    assert headers["webhook-signature"] == both


def test_a_reference_to_no_standard_secret_parks_the_destination(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A referenced secret of the wrong form is found when it is read: events wait, the log says what to do."""
    monkeypatch.setenv("HOOKLINE_SECRET_ONE", "not-a-standard-secret")
    begin(rig, standard(secret="env:HOOKLINE_SECRET_ONE"), "m-1")
    assert rig.network.sent == []
    printed = "".join(capsys.readouterr())
    assert "begins with whsec_" in printed
    assert "not-a-standard-secret" not in printed


def test_what_is_not_opted_into_costs_nothing(rig: Rig) -> None:
    """Destinations with one shared secret or none have the plain target, whose request function knows of no more."""
    rig.change(source(), destination("plain"), destination("signed", secret=OLD), standard("standard"))
    rig.start()
    kinds = {id: type(rig.lane(id).targets[0].template) for id in ("plain", "signed", "standard")}
    assert kinds == {"plain": Template, "signed": Template, "standard": SignedTemplate}
