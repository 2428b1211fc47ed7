"""``hookline up``: what it does when roles die, when it is killed, and for a first look."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.bench.machine import processes
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience
from tests.service.waiting import WAIT_SECONDS

NewHookline = Callable[..., Hookline]

IDLE_SECONDS = 4.0
WAKES_MAX = 160
"""In that time: 3 to 4 times what it is. It was 440 while timers went on with nothing to do."""


def test_a_role_that_dies_is_started_again(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Each role may be killed; a moment later it is back and events flow as before."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        for role in ("collect", "deliver", "control"):
            before = hookline.role(role)
            os.kill(before, signal.SIGKILL)
            wait_until(lambda role=role, before=before: running(hookline, role) not in (None, before), what=role)
            hookline.wait_ready()
            hookline.wait_status(hookline.track(), "crm", "delivered")


def test_a_new_start_waits_for_what_a_killed_supervisor_left(new_hookline: NewHookline) -> None:
    """A service manager restarts a supervisor at once after kill -9 of it alone: its roles end by themselves, and the
    new one waits until they have."""
    hookline = new_hookline().start()
    assert hookline.process is not None
    killed = hookline.process.pid
    assert len(living(killed)) > 1
    hookline.process.kill()
    hookline.process.wait(WAIT_SECONDS)
    with hookline:
        hookline.track()
        wait_until(lambda: not living(killed), what="the old roles gone")


def living(group: int) -> list[str]:
    """The command lines of its processes."""
    return [each.arguments for each in processes() if each.group == group and each.state[0] not in "ZX"]


def test_an_idle_service_is_seldom_woken(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Once what came is delivered, its processes hardly wake; the next event is delivered as ever."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        receiver.wait_for(hookline.track())
        wait_until(lambda: wakes_in(hookline, IDLE_SECONDS) < WAKES_MAX, what="rest")
        receiver.wait_for(hookline.track())


def wakes_in(hookline: Hookline, seconds: float) -> int:
    """How often threads of the service went to sleep within so long, and so were woken."""
    before = sleeps(hookline)
    time.sleep(seconds)
    return sum(count - before.get(thread, 0) for thread, count in sleeps(hookline).items())


def sleeps(hookline: Hookline) -> dict[str, int]:
    """By thread, how often it went to sleep so far."""
    found: dict[str, int] = {}
    for pid in hookline.members():
        for path in Path(f"/proc/{pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # it has ended
                lines = dict(line.partition(":")[::2] for line in path.read_text().splitlines())
                found[str(path)] = int(lines["voluntary_ctxt_switches"])
    return found


def test_what_can_never_start_ends_the_service(new_hookline: NewHookline) -> None:
    """A connections file with a mistake ends the start with 2 and its sentence, instead of starting for ever."""
    hookline = new_hookline(webhook("crm", "ftp://example.com/"))
    assert hookline.launch().wait(WAIT_SECONDS) == 2
    assert "ftp://example.com/" in hookline.log or "webhooks[0].url" in hookline.log


def test_a_role_that_joins_and_cannot_start_ends_no_other(new_hookline: NewHookline) -> None:
    """The first audience starts profiles, which misses a part; the others go on, and it does once that is back."""
    with new_hookline() as hookline:
        key, away = hookline.data / "privacy-key", hookline.folder / "away"
        wait_until(key.exists, what="the key is made")
        key.rename(away)
        buyers = audience("buyers", {"event": "Order", "count": {"gte": 1}}, destinations=[])
        assert hookline.api("POST", "audiences", buyers).status == 201
        wait_until(lambda: "profiles ended with code 2; starting it again" in hookline.log, what="it cannot start")
        hookline.track("Order")
        away.rename(key)
        members = "audiences/buyers/members"
        wait_until(lambda: hookline.api("GET", members).json.get("items"), 60, "the event is taken up")


@pytest.mark.parametrize("role", ["collect", "control"])
def test_an_address_that_is_taken_ends_the_service(new_hookline: NewHookline, role: str) -> None:
    """With 2, and what to do about which setting."""
    hookline = new_hookline()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", getattr(hookline, f"{role}_port")))
        taken.listen()
        assert hookline.launch().wait(WAIT_SECONDS) == 2
    address = hookline.settings[f"{role}.listen"]
    assert (
        f"cannot listen on {address} (Address already in use); stop what uses it or set {role}.listen" in hookline.log
    )


def test_beside_another_service_the_first_line_says_whose_the_port_is(new_hookline: NewHookline) -> None:
    """The welcome of a first start finds a control that is ready, and it is not its own."""
    command = (*Hookline.__init__.__kwdefaults__["command"], "--quickstart")
    with new_hookline() as other:
        hookline = new_hookline(command=command)
        hookline.settings["control.listen"] = other.settings["control.listen"]
        assert hookline.launch().wait(WAIT_SECONDS) == 2
        assert "No such file" not in hookline.log
        assert f"cannot listen on {other.settings['control.listen']}" in hookline.log


def test_a_first_look_creates_a_source_and_prints_what_to_paste(new_hookline: NewHookline) -> None:
    """--quickstart, as make run gives it: a first source, its key and the lines are printed; a restart keeps them."""
    command = (*Hookline.__init__.__kwdefaults__["command"], "--quickstart")
    hookline = new_hookline(sources=[], command=command)
    for _ in range(2):
        hookline.start()
        wait_until(lambda: "Ctrl-C stops it" in hookline.log, what="the welcome")
        source = hookline.api("GET", "sources").json["items"][-1]
        assert f"curl -u {source['writeKeys'][0]}: http://127.0.0.1:{hookline.collect_port}/v1/track" in hookline.log
        assert f"http://127.0.0.1:{hookline.control_port}/open/" in hookline.log
        assert f"listen --data-dir {hookline.data}\n" in hookline.log
        assert "The link works once, within 15 minutes, and lets you create the owner account" in hookline.log
        assert f"{source['writeKeys'][0]} (source Website" in hookline.log
        assert '"event": "collecting"' not in hookline.log, "log lines are for eyes"
        hookline.api("POST", "sources", {"id": "aaa", "name": "Before it in the alphabet"})
        hookline.stop()
    assert source["id"] == "website"


def test_a_link_that_is_asked_for_is_printed(new_hookline: NewHookline) -> None:
    """--one-time-link does what it says also where no terminal looks."""
    command = (*Hookline.__init__.__kwdefaults__["command"], "--one-time-link")
    with new_hookline(command=command) as hookline:
        wait_until(lambda: f"http://127.0.0.1:{hookline.control_port}/open/" in hookline.log, what="the link")


def running(hookline: Hookline, role: str) -> int | None:
    """The pid of a role's process, None while there is none."""
    return next((pid for pid, line in hookline.members().items() if role in line.split()), None)
