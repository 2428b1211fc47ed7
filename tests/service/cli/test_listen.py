"""``hookline listen``, ``send`` and ``why`` together, as in the README."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.cli.conftest import Run, command, environment
from tests.service.harness import Hookline, free_port, wait_until


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """One service for those that need no other: each listens at a port of its own."""
    with Hookline(tmp_path_factory.mktemp("listen")) as running:
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def listen(hookline: Hookline, *arguments: str) -> subprocess.Popen[str]:
    """Start the receiver and wait until it is one destination more."""
    before = destinations(hookline)
    line = command(hookline, "listen", "--json", *arguments)
    process = subprocess.Popen(
        line, cwd=hookline.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: destinations(hookline) != before or process.poll() is not None, what="listen is a destination")
    return process


def destinations(hookline: Hookline) -> list[str]:
    """The ids of all destinations."""
    return [item["id"] for item in hookline.api("GET", "destinations").json["items"]]


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Ask the receiver to end; its exit code, standard output and standard error."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def test_an_event_is_sent_received_and_explained(hookline: Hookline, run: Run) -> None:
    """The README's first event: listen shows it verified, why shows it delivered, and listen leaves nothing behind."""
    port = free_port()
    receiver = listen(hookline, "--port", str(port))
    assert f"listen-{port}" in destinations(hookline)
    sent = run(hookline, "send", "track", "--user-id", "u1", "--event", "Signed Up", "--properties", "n=1", "--json")
    message_id = json.loads(sent.stdout)["messageId"]
    hookline.wait_status(message_id, f"listen-{port}", "delivered")
    status: dict[str, Any] = json.loads(run(hookline, "why", message_id, "--json").stdout)
    assert status["destinations"][0]["attempts"][0]["outcome"] == "success"
    assert "delivered" in run(hookline, "why", message_id).stdout
    code, output, _ = ended(receiver, signal.SIGTERM)
    arrival = json.loads(output)
    assert (code, arrival["signature"], arrival["messageId"]) == (0, "valid", message_id)
    assert arrival["body"]["properties"] == {"n": 1}
    assert f"listen-{port}" not in destinations(hookline)


def test_sources_that_come_later_are_listened_to(new_hookline: Callable[..., Hookline]) -> None:
    """It may be started before there is any source; the events of each new one arrive, and what was disconnected
    stays so."""
    with new_hookline(sources=[]) as hookline:
        port = free_port()
        receiver = listen(hookline, "--port", str(port))

        def fed_by(*sources: str) -> bool:
            return bool(hookline.api("GET", f"destinations/listen-{port}").json["sources"] == list(sources))

        hookline.api("POST", "sources", {"id": "first", "name": "First", "writeKeys": ["wk_first"]})
        wait_until(lambda: fed_by("first"), what="the first source is connected")
        hookline.api("PATCH", f"destinations/listen-{port}", {"sources": []})
        hookline.api("POST", "sources", {"id": "second", "name": "Second", "writeKeys": ["wk_second"]})
        wait_until(lambda: fed_by("second"), what="the second source is connected")
        body = {"userId": "u1", "event": "Signed Up", "messageId": "m-second"}
        wait_until(lambda: hookline.post("/v1/track", body, "wk_second").status == 200, what="collect knows the key")
        hookline.wait_status("m-second", f"listen-{port}", "delivered")
        _, output, errors = ended(receiver, signal.SIGTERM)
        assert [json.loads(line)["messageId"] for line in output.splitlines()] == ["m-second"]
        assert "there is no source yet" in errors
        assert "listening to the new source Second (second) too" in errors


def test_ctrl_c_takes_the_destination_out(hookline: Hookline) -> None:
    """Ctrl-C ends it as cleanly as SIGTERM."""
    before = destinations(hookline)
    receiver = listen(hookline, "--port", "0")
    code, _, errors = ended(receiver, signal.SIGINT)
    assert (code, destinations(hookline)) == (0, before)
    assert "refused" not in errors


def test_it_ends_when_nobody_reads_any_more(hookline: Hookline) -> None:
    """As with ``| head``: its destination goes too, so that no events wait for it."""
    before = destinations(hookline)
    receiver = listen(hookline, "--port", "0")
    assert receiver.stdout is not None
    receiver.stdout.close()
    hookline.track()
    try:
        assert receiver.wait(30) == 0
    finally:
        receiver.kill()
    assert destinations(hookline) == before


def test_a_server_that_has_ended_keeps_the_destination(new_hookline: Callable[..., Hookline]) -> None:
    """It is named, with the command that removes it."""
    with new_hookline() as hookline:
        receiver = listen(hookline, "--port", "0")
        (identifier,) = (each for each in destinations(hookline) if each.startswith("listen-"))
        hookline.stop()
        code, _, errors = ended(receiver, signal.SIGINT)
        assert (code, f"hookline destinations delete {identifier}" in errors) == (1, True)


def test_it_says_when_nothing_can_arrive(new_hookline: Callable[..., Hookline]) -> None:
    """A server that may not send to this machine is named as the reason, with the setting to change."""
    with new_hookline(settings={"deliver.allow_networks": []}) as hookline:
        receiver = listen(hookline, "--port", "0")
        _, _, errors = ended(receiver, signal.SIGTERM)
        assert "deliver.allow_networks" in errors


def test_a_status_to_answer_shows_retries(hookline: Hookline) -> None:
    """Answering 500 makes the same message come again."""
    port = free_port()
    receiver = listen(hookline, "--port", str(port), "--status", "500")
    message_id = hookline.track()
    wait_until(lambda: len(hookline.status_at(message_id, f"listen-{port}").get("attempts", [])) > 1, what="a retry")
    _, output, _ = ended(receiver, signal.SIGTERM)
    assert {json.loads(line)["messageId"] for line in output.splitlines()} == {message_id}
    assert len(output.splitlines()) > 1
