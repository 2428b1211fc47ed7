"""Suppression in the running service: at once, through crashes, and lifted again."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, holds_for, wait_until, webhook

WITHIN_SECONDS = 1.0


def is_stored(hookline: Hookline, user: str | None, anonymous: str | None = None) -> bool:
    """Whether an event of somebody sent now is kept; told by the journal's end."""
    message_id = hookline.track(userId=user, anonymousId=anonymous)
    return hookline.event(message_id) is not None


def test_events_of_a_suppressed_person_stop_within_a_second(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Without a restart; nothing of them reaches a receiver or a file, also after kill -9; others go on; they are
    counted; lifted, they are stored again."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        first = hookline.track(userId="person-of-the-test", anonymousId="anonymous-of-the-test")
        receiver.wait_for(first)
        asked = time.monotonic()
        made = hookline.api("POST", "deletion-requests", {"userId": "person-of-the-test", "action": "suppress"})
        assert made.status == 201, made
        wait_until(lambda: not is_stored(hookline, "person-of-the-test"), what="suppression in force")
        print(f"in force after {time.monotonic() - asked:.2f} s")
        wait_until(lambda: hookline.api("GET", "deletion-requests/dr1").json["state"] == "done")
        wait_until(lambda: not is_stored(hookline, None, "anonymous-of-the-test"), what="further ids suppressed")
        assert is_stored(hookline, "anonymous-of-the-test"), "a user who has that id is somebody else"
        hookline.kill9()
        hookline.start()
        gone = hookline.track(userId="person-of-the-test", properties={"secret": "never-in-a-file"})
        also = hookline.post("/v1/batch", {"batch": [{"type": "page", "anonymousId": "anonymous-of-the-test"}]})
        assert also.json["accepted"] == 1
        other = hookline.track(userId="somebody-else")
        receiver.wait_for(other)
        assert receiver.of(gone) == []
        files = [path.read_bytes() for path in hookline.data.rglob("*") if path.is_file()]
        assert not any(b"never-in-a-file" in data for data in files)
        wait_until(lambda: hookline.api("GET", "usage").json["suppressed"] >= 2, what="usage counts them")
        wait_until(lambda: hookline.metric("hookline_collect_suppressed_total") == 2, what="its report counts them")
        lifted = hookline.api("POST", "suppressions/lift", {"userId": "person-of-the-test"})
        assert lifted.json == {"lifted": 1}
        wait_until(lambda: is_stored(hookline, "person-of-the-test"), what="lifted")


def test_a_crash_in_the_middle_of_a_request_leaves_it_to_the_next_start(new_hookline: Callable[..., Hookline]) -> None:
    """Control dies between looking up and writing down: the ids given are suppressed all the same, and the request
    is done after the restart."""
    with new_hookline(environment={"HOOKLINE_CRASH_POINT": "privacy.looked_up"}) as hookline:
        hookline.track(userId="u1", anonymousId="a1")
        control = hookline.role("control")
        assert hookline.api("POST", "deletion-requests", {"userId": "u1", "action": "suppress"}).status == 201
        wait_until(lambda: hookline.role("control", required=False) not in (0, control), what="control came back")
        hookline.wait_ready()
        wait_until(lambda: hookline.api("GET", "deletion-requests/dr1").json["state"] == "done", what="done")
        assert len(hookline.api("GET", "suppressions").json["items"]) == 2
        wait_until(lambda: not is_stored(hookline, None, "a1"), what="further ids suppressed")


def test_nobody_suppressed_stores_everybody(new_hookline: Callable[..., Hookline]) -> None:
    """An empty list is the usual case."""
    with new_hookline() as hookline:
        assert is_stored(hookline, "u1")
        holds_for(lambda: hookline.metric("hookline_collect_suppressed_total") == 0, 0.1)
