"""Retries as a caller of the product sees them: schedule, Retry-After, and several URLs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

NewHookline = Callable[..., Hookline]


def test_a_failing_receiver_is_tried_again_until_it_works(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Three times 500, then 200: four attempts with the same bytes, all of them in the status."""
    hookline = new_hookline(webhook("crm", receiver.url(), secret="s"), settings={"deliver.retry_max": "300ms"}).start()
    counter = itertools.count()
    receiver.respond = lambda request: Reply(500 if next(counter) < 3 else 200)
    message_id = hookline.track()
    requests = receiver.wait_for(message_id, 4)
    part = hookline.wait_status(message_id, "crm", "delivered")
    assert [a["outcome"] for a in part["attempts"]] == ["server_error"] * 3 + ["success"]
    assert [a["httpStatus"] for a in part["attempts"]] == [500, 500, 500, 200]
    assert len({(r.body, r.headers["x-signature"], r.headers["x-message-id"]) for r in requests}) == 1


def test_a_waiting_retry_says_when_it_is_due(receiver: Receiver, new_hookline: NewHookline) -> None:
    """Between two attempts the status is ``retrying`` and names the next moment."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    receiver.reply_with(503, headers={"Retry-After": "60"})
    message_id = hookline.track()
    part = hookline.wait_status(message_id, "crm", "retrying")
    [attempt] = part["attempts"]
    assert attempt["nextAt"] > attempt["at"]


def test_retry_after_is_honoured(receiver: Receiver, new_hookline: NewHookline) -> None:
    """429 with Retry-After: 2 is tried again after two seconds, not after the schedule's tenth of one."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    counter = itertools.count()
    receiver.respond = lambda r: Reply(200) if next(counter) else Reply(429, headers={"Retry-After": "2"})
    first, second = receiver.wait_for(hookline.track(), 2)[:2]
    assert second.at - first.at >= 1.9


def test_a_final_answer_is_not_tried_again(receiver: Receiver, new_hookline: NewHookline) -> None:
    """400 ends it: one attempt, status ``failed``, kept as a dead letter."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    receiver.reply_with(400)
    message_id = hookline.track()
    part = hookline.wait_status(message_id, "crm", "failed")
    assert [a["outcome"] for a in part["attempts"]] == ["refused"]
    letters = hookline.api("GET", "dead-letters").json["items"]
    assert [letter["messageId"] for letter in letters] == [message_id]


def test_one_success_of_two_urls_is_enough(receiver: Receiver, new_hookline: NewHookline) -> None:
    """One URL refuses, the other accepts: processed, and the failing one is not tried again."""
    with Receiver() as broken:
        broken.reply_with(500)
        hookline = new_hookline(webhook("crm", broken.url("/one"), receiver.url("/two"))).start()
        message_id = hookline.track()
        hookline.wait_status(message_id, "crm", "delivered")
        # The success decides the status; the other URL's answer may come a moment later.
        both = ["server_error", "success"]
        wait_until(
            lambda: sorted(a["outcome"] for a in hookline.status_at(message_id, "crm")["attempts"]) == both,
            what="both attempts are on record",
        )
        hookline.wait_status(hookline.track(), "crm", "delivered")
        assert len(receiver.of(message_id)) == len(broken.of(message_id)) == 1


def test_only_urls_worth_it_are_tried_again(receiver: Receiver, new_hookline: NewHookline) -> None:
    """None succeeded: the one that said 503 is tried again, the one that said 400 is not."""
    with Receiver() as final:
        final.reply_with(400)
        counter = itertools.count()
        receiver.respond = lambda request: Reply(503 if next(counter) == 0 else 200)
        hookline = new_hookline(webhook("crm", final.url(), receiver.url())).start()
        message_id = hookline.track()
        hookline.wait_status(message_id, "crm", "delivered")
        assert len(receiver.of(message_id)) == 2
        assert len(final.of(message_id)) == 1
