"""``hookline secrets`` on a running service: two secrets while one rotates, across restarts, ended by the clock."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.cli.conftest import Run
from tests.service.cli.test_listen import ended, listen
from tests.service.harness import Hookline, Receiver, Request, wait_until, webhook

OLD, NEW = "the-old-shared-secret", "the-new-shared-secret"
WHSEC_OLD, WHSEC_NEW = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))


@pytest.fixture
def hookline(new_hookline: Callable[..., Hookline], receiver: Receiver) -> Iterator[Hookline]:
    """A service with a destination that is signed both ways."""
    with new_hookline(signed("crm", receiver)) as running:
        wait_in_force(running)
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """Another one, for tests that do not start it again: crm is for one of them, each other makes a destination."""
    with (
        Receiver() as receiver,
        Hookline(tmp_path_factory.mktemp("secrets"), [signed("crm", receiver)]) as running,
    ):
        wait_in_force(running)
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def signed(id: str, receiver: Receiver, **more: Any) -> dict[str, Any]:
    """A destination that is signed both ways."""
    made = webhook(id, receiver.url(), secret=OLD, **more)
    made["settings"]["standardWebhooks"] = {"secret": WHSEC_OLD}
    return made


def make(hookline: Hookline, destination: dict[str, Any]) -> None:
    """Make it by the API."""
    made = hookline.api("POST", "destinations", destination)
    assert made.status == 201, made


def wait_in_force(hookline: Hookline) -> None:
    """Until deliver has the old secrets in force, no later one is a change, and nothing would be logged."""
    hookline.wait_status(hookline.track(), "crm", "delivered")


def sent(hookline: Hookline, receiver: Receiver) -> Request:
    """Send one event and return its request."""
    return receiver.wait_for(hookline.track())[0]


def hex_by(secret: str, request: Request) -> str:
    """The X-Signature that a receiver with this secret expects."""
    return hmac.new(secret.encode(), request.body, hashlib.sha1).hexdigest()


def standard_by(secret: str, request: Request) -> str:
    """The Standard Webhooks signature that a receiver with this secret expects."""
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def rotations(hookline: Hookline, destination: str = "crm") -> list[dict[str, Any]]:
    """What the destination object says about its secrets."""
    return list(hookline.api("GET", f"destinations/{destination}").json["rotations"])


def rotate(
    run: Run, hookline: Hookline, secret: str, setting: str, overlap: str = "24h", destination: str = "crm"
) -> None:
    """Rotate with a given secret and wait until the sender has taken it over."""
    before = hookline.log.count("destination_changed")
    given = (f"--secret={secret}", f"--setting={setting}", f"--overlap={overlap}")
    done = run(hookline, "secrets", "rotate", destination, "--yes", *given)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: hookline.log.count("destination_changed") > before)


def test_both_secrets_sign_in_the_overlap_and_a_restart_changes_nothing(
    hookline: Hookline, receiver: Receiver, run: Run
) -> None:
    """With kill -9 and a new start in the middle, whose connections file still has the old secret."""
    rotate(run, hookline, NEW, "sharedSecret")
    rotate(run, hookline, WHSEC_NEW, "standardWebhooks")
    shown = rotations(hookline)
    assert [(each["setting"], each["previous"]) for each in shown] == [
        ("sharedSecret", "…cret"),
        ("standardWebhooks", "…" + WHSEC_OLD[-4:]),
    ]
    for restarted in (False, True):
        if restarted:
            hookline.kill9()
            hookline.start()
        request = sent(hookline, receiver)
        assert request.headers["x-signature"] == hex_by(OLD, request)
        assert request.headers["x-signature-next"] == hex_by(NEW, request)
        both = [standard_by(secret, request) for secret in (WHSEC_NEW, WHSEC_OLD)]
        assert request.headers["webhook-signature"].split(" ") == both
        assert rotations(hookline) == shown
    assert "file_has_rotated_secret" in hookline.log


def test_the_overlap_ends_by_itself(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """Nobody does anything: requests carry the old secret's signature until the end, then the new one's alone."""
    rotate(run, hookline, NEW, "sharedSecret", "3s")
    last: list[Request] = []

    def over() -> bool:
        last[:] = [sent(hookline, receiver)]
        headers = last[0].headers
        old = headers["x-signature"] == hex_by(OLD, last[0])
        assert old == ("x-signature-next" in headers)
        return not old

    wait_until(over)
    request = last[0]
    assert request.headers["x-signature"] == hex_by(NEW, request)
    assert rotations(hookline) == []
    hookline.restart()
    request = sent(hookline, receiver)
    assert request.headers["x-signature"] == hex_by(NEW, request)


def test_a_receiver_is_switched_without_a_failed_event(shared: Hookline, receiver: Receiver, run: Run) -> None:
    """A receiver that takes either header changes its one secret in the overlap; every request of it is good."""
    make(shared, signed("switched", receiver))
    secret = [OLD]

    def good(request: Request) -> bool:
        given = (request.headers.get(name) for name in ("x-signature", "x-signature-next"))
        return hex_by(secret[0], request) in given

    assert good(sent(shared, receiver))
    rotate(run, shared, NEW, "sharedSecret", destination="switched")
    assert good(sent(shared, receiver))
    secret[0] = NEW
    assert good(sent(shared, receiver))
    assert run(shared, "secrets", "end", "switched", "--yes").returncode == 0
    wait_until(lambda: "x-signature-next" not in sent(shared, receiver).headers)
    assert good(sent(shared, receiver))


def test_a_made_secret_is_printed_once(shared: Hookline, receiver: Receiver, run: Run) -> None:
    """The command says the new secret, until when both are good and how to end that; JSON has the same."""
    make(shared, signed("renewed", receiver, sources=[]))
    done = run(shared, "secrets", "rotate", "renewed", "--yes", "--setting", "standardWebhooks")
    secret = re.search(r"whsec_\S+", done.stdout)
    assert secret is not None
    assert "signatures of both secrets" in done.stdout
    assert "hookline secrets end renewed" in done.stdout
    assert secret[0] not in json.dumps(shared.api("GET", "destinations/renewed").json)
    at_once = ("--setting=sharedSecret", "--overlap=0s", "--json")
    answer = json.loads(run(shared, "secrets", "rotate", "renewed", "--yes", *at_once).stdout)
    assert len(answer["secret"]) > 40
    assert "sharedSecret" not in {each["setting"] for each in answer["destination"]["rotations"]}


REFUSED = [
    (["rotate", "kept"], 1, "sharedSecret or standardWebhooks"),
    (["rotate", "nope"], 1, "nope"),
    (["rotate", "kept", "--setting=sharedSecret", "--overlap=soon"], 1, "such as 250ms"),
    (["rotate", "kept", "--setting=standardWebhooks", "--secret=plain"], 1, "begins with whsec_"),
    (["end", "kept"], 1, "no overlap to end"),
    (["end", "kept", "--overlap=1h"], 2, "takes neither"),
    (["burn", "kept"], 2, "rotate"),
]


def test_what_cannot_be_is_a_sentence(shared: Hookline, receiver: Receiver, run: Run) -> None:
    """A command that is refused changes nothing and says what to do."""
    make(shared, signed("kept", receiver, sources=[]))
    for arguments, code, words in REFUSED:
        done = run(shared, "secrets", *arguments, "--yes")
        assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stderr
    assert rotations(shared, "kept") == []


def test_apply_says_that_the_file_is_behind(shared: Hookline, run: Run) -> None:
    """The file that still has the old secret is applied without undoing anything, and the line says what to write."""
    rotate(run, shared, NEW, "sharedSecret")
    done = run(shared, "apply", str(shared.folder / "connections.yaml"))
    assert done.stdout.startswith("= destination crm  (the file has a secret that was rotated out (sharedSecret)")
    assert done.stdout.endswith("nothing to change\n")
    assert len(rotations(shared)) == 1


def test_listen_verifies_both_ways_and_through_a_rotation(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """It judges X-Signature and Standard Webhooks; told the next secrets beforehand, it stays content."""
    with new_hookline() as hookline:
        secrets = [f"--secret={secret}" for secret in (OLD, WHSEC_OLD, NEW, WHSEC_NEW)]
        receiver = listen(hookline, "--port", "0", *secrets)
        (id,) = (item["id"] for item in hookline.api("GET", "destinations").json["items"])
        hookline.wait_status(hookline.track(), id, "delivered")
        for setting, secret in (("sharedSecret", NEW), ("standardWebhooks", WHSEC_NEW)):
            before = hookline.log.count("destination_changed")
            run(
                hookline, "secrets", "rotate", id, "--yes", f"--secret={secret}", f"--setting={setting}", "--overlap=0s"
            )
            wait_until(lambda before=before: hookline.log.count("destination_changed") > before)
        hookline.wait_status(hookline.track(), id, "delivered")
        _, output, _ = ended(receiver, signal.SIGTERM)
        verdicts = [json.loads(line)["signatures"] for line in output.splitlines()]
        assert verdicts == [{"X-Signature": "valid", "webhook-signature": "valid"}] * 2


def test_listen_refuses_a_secret_that_is_none(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """A mistyped Standard Webhooks secret ends it before it is a destination; the flag makes a good one."""
    with new_hookline() as hookline:
        done = run(hookline, "listen", "--port", "0", "--secret", "whsec_oops")
        assert (done.returncode, "3 bytes" in done.stderr) == (2, True)
        receiver = listen(hookline, "--port", "0", "--standard-webhooks")
        (item,) = hookline.api("GET", "destinations").json["items"]
        hookline.wait_status(hookline.track(), item["id"], "delivered")
        _, output, errors = ended(receiver, signal.SIGTERM)
        assert json.loads(output)["signatures"] == {"X-Signature": "valid", "webhook-signature": "valid"}
        assert "whsec_" in errors
