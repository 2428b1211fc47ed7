"""When rules speak: one message for an outage and one for its end, thresholds, reminders, quiet hours, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from hookline.features.notices.conditions.finding import Moment
from hookline.features.notifications.channels import Result
from hookline.features.notifications.log import FailingChannels
from hookline.insights.series import Recent
from tests.unit.conftest import LocationOf
from tests.unit.connections.examples import change, destination, source
from tests.unit.features.notifications.rig import Rig, whats

DEGRADED = "destination_degraded"


class Away(dict[int, dict[str, Recent]]):
    """Series that cannot be read."""

    def __getitem__(self, seconds: int) -> dict[str, Recent]:
        """Fail."""
        raise OSError("input/output error")


@pytest.fixture
def rig(location_of: LocationOf) -> Iterator[Rig]:
    """An installation with one rule: whatever destination fails."""
    made = Rig(location_of("control"))
    change(made.store, source(), destination(), destination("erp"))
    made.put()
    made.look()
    yield made
    made.close()


def test_an_outage_is_one_message_and_one_recovered(rig: Rig) -> None:
    """What begins within a minute is said together, once; the end once all of it has been gone for two minutes."""
    rig.begins("crm")
    assert rig.look() == []
    rig.begins("erp")
    (opened,) = rig.pass_time(3600)
    assert (opened.what, opened.title) == ("opened", "Destination crm keeps failing (and 1 more)")
    assert {item.subject for item in opened.items} == {"crm", "erp"}
    rig.ends("crm")
    assert rig.pass_time(3600) == []
    rig.ends("erp")
    (recovered,) = rig.pass_time(3600)
    assert (recovered.what, recovered.token) == ("recovered", opened.token)
    assert recovered.title == "Resolved: Destination crm keeps failing (and 1 more)"
    assert "It lasted 2 h" in recovered.text
    assert rig.log.outages() == []


def test_what_flaps_is_said_once(rig: Rig) -> None:
    """Coming back within two minutes it is still the same outage, however often."""
    rig.begins()
    sent = rig.pass_time(90)
    for _ in range(20):
        rig.ends()
        sent += rig.pass_time(60)
        rig.begins()
        sent += rig.pass_time(30)
    assert whats(sent) == ["opened"]
    rig.ends()
    assert whats(rig.pass_time(300)) == ["recovered"]


def test_the_same_cause_in_another_form_is_no_second_message(rig: Rig) -> None:
    """A destination that fails often, and then always, is one outage."""
    rig.put(threshold={"failedShare": 0.2})
    rig.begins(kind=DEGRADED, count=35)
    assert whats(rig.pass_time(90)) == ["opened"]
    rig.begins()
    rig.pass_time(90)
    rig.ends(kind=DEGRADED)
    assert rig.pass_time(600) == []
    rig.ends()
    assert whats(rig.pass_time(600)) == ["recovered"]


def test_each_rule_judges_the_share_over_its_own_time(rig: Rig) -> None:
    """One notice stands for all rules; each speaks of it while its own share is reached."""
    slow = {"id": "slow", "threshold": {"failedShare": 0.05, "for": "1h"}}
    rig.put(threshold={"failedShare": 0.5})
    rig.put(**slow)
    rig.begins(kind=DEGRADED, count=3)
    rig.requests[3600]["crm"] = Recent(900, 100)
    (first,) = rig.pass_time(300)
    assert (first.notification, "10% of 1000 requests in the last 60 min" in first.items[0].message) == ("slow", True)
    rig.requests[300]["crm"] = Recent(20, 80)
    (second,) = rig.pass_time(300)
    assert (second.notification, "80% of 100 requests in the last 5 min" in second.items[0].message) == ("ops", True)
    assert second.items[0].since > first.items[0].since
    rig.requests[300]["crm"] = Recent(97, 3)
    assert [(each.notification, each.what) for each in rig.pass_time(300)] == [("ops", "recovered")]
    rig.ends(kind=DEGRADED)
    assert [(each.notification, each.what) for each in rig.pass_time(300)] == [("slow", "recovered")]


def test_what_is_judged_waits_for_the_series_alone(rig: Rig) -> None:
    """While they cannot be read an outage that is known goes on, and everything else is notified."""
    rig.put(threshold={"failedShare": 0.2})
    rig.begins(kind=DEGRADED, count=35)
    assert whats(rig.pass_time(90)) == ["opened"]
    kept, rig.requests = rig.requests, Away()
    rig.begins("erp")
    assert [item.subject for each in rig.pass_time(600) for item in each.items] == ["erp"]
    rig.requests = kept
    rig.requests[300].clear()
    assert [(each.what, each.items[0].subject) for each in rig.pass_time(600)] == [("recovered", "crm")]


def test_a_later_outage_is_another_message(rig: Rig) -> None:
    """What begins after the message has left is said by itself, and ends by itself."""
    rig.begins("crm")
    (first,) = rig.pass_time(90)
    rig.begins("erp")
    (second,) = rig.pass_time(90)
    assert first.token != second.token
    rig.ends("crm")
    (ended,) = rig.pass_time(300)
    assert ended.token == first.token


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # what a rule is about is asked of no database
@pytest.mark.parametrize(
    ("rule", "notice", "speaks"),
    [
        ({"destinations": ["erp"]}, {}, False),
        ({"destinations": ["crm"]}, {}, True),
        ({"when": ["source_silent"]}, {}, False),
        (
            {"when": ["dead_letters"], "threshold": {"count": 200}},
            {"kind": "dead_letters_growing", "count": 199},
            False,
        ),
        ({"when": ["dead_letters"], "threshold": {"count": 200}}, {"kind": "dead_letters_growing", "count": 200}, True),
        ({}, {"kind": DEGRADED, "count": 99}, False),
        ({"threshold": {"failedShare": 0.5}}, {"kind": DEGRADED, "count": 49}, False),
        ({"threshold": {"failedShare": 0.5}}, {"kind": DEGRADED, "count": 50}, True),
        ({"when": ["notification_failing"]}, {"kind": "notification_failing", "subject": "ops"}, False),
        ({"when": ["notification_failing"]}, {"kind": "notification_failing", "subject": "other"}, True),
        ({"destinations": ["crm"]}, {"subject": "*"}, False),
        ({"enabled": False}, {}, False),
    ],
)
def test_only_what_a_rule_is_about_is_said(
    rig: Rig, rule: dict[str, object], notice: dict[str, object], speaks: bool
) -> None:
    """Triggers, filters and thresholds each keep away what they mean; about its own failure no rule speaks."""
    rig.put(**rule)
    rig.begins(**notice)  # type: ignore[arg-type]
    assert bool(rig.pass_time(300)) is speaks


def test_it_must_have_lasted(rig: Rig) -> None:
    """With `for`, what is over before that is never said; how long it has lasted counts from its own begin."""
    rig.put(threshold={"for": "10m"})
    rig.begins("erp")
    rig.pass_time(500)
    rig.ends("erp")
    assert rig.pass_time(600) == []
    rig.begins("crm", since_ms=rig.now_ms - 9 * 60_000)
    assert rig.look(30) == []
    assert whats(rig.pass_time(120)) == ["opened"]


def test_it_is_said_again_as_often_as_asked(rig: Rig) -> None:
    """A reminder every so often while it lasts, and none without the setting."""
    rig.put(remindEvery="1h")
    rig.begins()
    assert whats(rig.pass_time(3 * 3600 + 300)) == ["opened", "reminder", "reminder", "reminder"]
    rig.ends()
    assert whats(rig.pass_time(2 * 3600)) == ["recovered"]


def test_a_moment_is_said_once_and_has_no_end(rig: Rig) -> None:
    """A new event name is one message; what passed before there was a rule is not said."""
    rig.begins("website", "event_name_new")
    rig.put(when=["new_event_name"])
    rig.restart()
    rig.begins("website", "event_name_new")
    (sent,) = rig.pass_time(900)
    assert sent.title == "Source website sent event names that it never sent before"
    assert rig.log.outages() == []


def test_moments_of_one_minute_are_said_together(rig: Rig) -> None:
    """The second new name is not left out because the first waits to be said; the next minute's are said anew."""
    rig.put(when=["new_event_name"])
    rig.begins("website", "event_name_new", detail="“One”")
    rig.look()
    rig.begins("website", "event_name_new", count=2, detail="“Two”, “Three”")
    (sent,) = rig.pass_time(300)
    (item,) = sent.items
    assert (item.count, "“One”" in item.message, "“Three”" in item.message) == (3, True, True)
    rig.begins("website", "event_name_new", detail="“Four”")
    (later,) = rig.pass_time(300)
    assert "“One”" not in later.items[0].message


def test_old_moments_are_not_said_to_the_first_rule(rig: Rig) -> None:
    """A rule speaks of what is open, and of what passes from then on."""
    rig.delete()
    rig.look()
    rig.begins("website", "event_name_new")
    rig.begins("crm")
    rig.put(when=["new_event_name", "destination_failing"])
    (sent,) = rig.pass_time(300)
    assert [item.kind for item in sent.items] == ["destination_breaker_open"]


def test_a_restart_between_says_nothing_twice_and_leaves_nothing_out(rig: Rig) -> None:
    """What was collected, said and sent is in the database."""
    rig.begins()
    rig.look()
    rig.restart()
    assert whats(rig.pass_time(90)) == ["opened"]
    rig.restart()
    assert rig.pass_time(600) == []
    rig.ends()
    rig.look()
    rig.restart()
    assert whats(rig.pass_time(300)) == ["recovered"]


def test_a_crash_before_sending_sends(rig: Rig) -> None:
    """A message that was written down and not sent is sent by the next process."""
    rig.begins()
    rig.look()
    rig.now_ms += 90_000
    rig.watch.look()
    rig.restart()
    assert whats(rig.look()) == ["opened"]


def test_a_failure_is_tried_again_and_then_given_up(rig: Rig) -> None:
    """After 5 s, 30 s, 2 min, 10 min and 30 min; then it has failed, with the reason."""
    rig.channels.results = [Result("mail: busy")] * 6
    rig.begins()
    assert len(rig.pass_time(2 * 3600, step=5)) == 6
    (message,) = rig.messages
    assert (message.state, message.tries, message.error) == ("failed", 6, "mail: busy")


def test_a_clock_that_is_set_back_holds_nothing_up(rig: Rig) -> None:
    """Neither a begin, nor another try, nor an end waits until it has come so far again."""
    rig.begins()
    rig.look()
    rig.channels.results = [Result("no answer")]
    for what in ("opened", "opened"):
        rig.now_ms -= 7_200_000
        assert whats(rig.look()) == [what]
    rig.ends()
    rig.look()
    rig.now_ms -= 7_200_000
    (recovered,) = rig.look()
    assert (recovered.what, "-" in recovered.text.partition("It lasted")[2]) == ("recovered", False)


def test_a_final_failure_is_not_tried_again(rig: Rig) -> None:
    """What no other try would change is given up at once."""
    rig.channels.results = [Result("mail: no such user", final=True)]
    rig.begins()
    assert len(rig.pass_time(3600)) == 1
    assert rig.messages[0].state == "failed"


def test_an_end_replaces_a_begin_that_could_not_be_sent(rig: Rig) -> None:
    """Who has not heard of it hears once that it began and is over."""
    rig.channels.results = [Result("down")] * 4
    rig.begins()
    rig.pass_time(270)
    rig.ends()
    rig.channels.results = []
    sent = rig.pass_time(1200)
    assert whats(sent) == ["recovered"]
    assert [message.state for message in rig.messages] == ["sent", "replaced"]


def test_a_result_that_cannot_be_written_is_no_reason_to_send_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message was sent once, and is noted as sent as soon as the disk lets that be written."""

    def full(*_: object) -> None:
        raise OSError("no space left")

    rig.begins()
    with monkeypatch.context() as patch:
        patch.setattr(rig.log, "tried", full)
        for _ in range(20):
            with suppress(OSError):
                rig.look()
    assert whats([content for _, content in rig.channels.sent]) == ["opened"]
    assert rig.pass_time(300) == []
    assert [(message.state, message.tries) for message in rig.messages] == [("sent", 1)]


def test_a_message_follows_its_channel_when_that_is_edited(rig: Rig) -> None:
    """What waits for another try goes to the channel as it is now, and one that has it already gets it no more."""
    hooks = [{"webhook": {"url": f"https://{name}.example/x"}} for name in ("one", "two")]
    rig.put(to=[{"email": ["a@b.example"]}, *hooks])
    rig.channels.results = [Result("no such user"), Result("down"), Result()]
    rig.begins()
    rig.pass_time(70, step=10)
    signed = [{"webhook": {**hook["webhook"], "secret": "s3cret"}} for hook in hooks]
    rig.put(to=[{"email": ["c@d.example"]}, *signed])
    rig.channels.results = [Result("busy")]
    rig.pass_time(600)
    assert [channel.shown for channel, _ in rig.channels.sent[3:]] == ["c@d.example", "one.example", "c@d.example"]
    assert {(message.to, message.state) for message in rig.messages} == {
        ("c@d.example", "sent"),
        ("one.example", "sent"),
        ("two.example", "sent"),
    }


def test_each_channel_is_served_by_itself(rig: Rig) -> None:
    """One that fails is tried again alone; one that was removed meanwhile gets nothing."""
    rig.put(to=[{"email": ["a@b.example"]}, {"webhook": {"url": "https://hook.example/x"}}])
    rig.channels.results = [Result("down"), Result()]
    rig.begins()
    rig.pass_time(180)
    assert [channel.kind for channel, _ in rig.channels.sent] == ["email", "webhook", "email"]
    rig.channels.results = [Result("down")] * 2
    rig.ends()
    rig.pass_time(150)
    rig.put(to=[{"email": ["c@d.example"]}])
    rig.pass_time(600)
    assert {message.error for message in rig.messages if message.state == "failed"} == {"its channel was removed"}


def test_the_end_of_a_rule_is_not_the_end_of_an_outage(rig: Rig) -> None:
    """Deleted, disabled or narrowed, a rule does not say "resolved" of what still fails."""
    rig.begins()
    rig.pass_time(90)
    rig.put(destinations=["erp"])
    assert rig.pass_time(600) == []
    rig.put()
    assert whats(rig.pass_time(90)) == ["opened"]
    rig.delete()
    assert rig.pass_time(600) == []
    assert rig.log.outages() == []


BERLIN = {"from": "22:00", "to": "07:00", "timeZone": "Europe/Berlin"}


def at(rig: Rig, *when: int) -> None:
    """Set the clock (UTC)."""
    rig.now_ms = int(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc]


def test_quiet_hours_hold_back_and_end_with_one_summary(rig: Rig) -> None:
    """In the night nothing; in the morning one message says what is still so and what is over."""
    at(rig, 2026, 11, 23, 21, 30)
    rig.put(quietHours=BERLIN, remindEvery="1h")
    rig.begins("crm")
    rig.begins("erp")
    assert rig.pass_time(3600) == []
    rig.ends("erp")
    assert rig.pass_time(7 * 3600) == []
    (summary,) = rig.pass_time(1800)
    assert summary.what == "summary"
    assert summary.title == "During quiet hours: 1 notice is still open, 1 notice has been resolved"
    assert [(item.subject, item.over_at is None) for item in summary.items] == [("crm", True), ("erp", False)]
    rig.put(quietHours=BERLIN)
    assert rig.pass_time(600) == []
    rig.ends("crm")
    assert whats(rig.pass_time(600)) == ["recovered"]


def test_what_was_over_in_the_night_is_said_in_the_morning(rig: Rig) -> None:
    """Also when it was said before the night that it began."""
    at(rig, 2026, 11, 23, 20, 50)
    rig.put(quietHours=BERLIN)
    rig.begins()
    assert whats(rig.pass_time(300)) == ["opened"]
    at(rig, 2026, 11, 23, 23, 0)
    rig.ends()
    assert rig.pass_time(3600) == []
    at(rig, 2026, 11, 24, 6, 0)
    (summary,) = rig.look()
    assert summary.title == "During quiet hours: 1 notice has been resolved"
    assert rig.log.outages() == []
    assert rig.pass_time(3600) == []


def test_a_moment_of_the_night_is_not_still_open_in_the_morning(rig: Rig) -> None:
    """It came in, and has no end."""
    at(rig, 2026, 11, 23, 22, 0)
    rig.put(when=["new_event_name", "destination_failing"], quietHours=BERLIN)
    rig.begins("crm")
    rig.begins("website", "event_name_new")
    assert rig.pass_time(3600) == []
    at(rig, 2026, 11, 24, 6, 0)
    (summary,) = rig.look()
    assert summary.title == "During quiet hours: 1 notice is still open, 1 notice came in"


def test_an_end_that_was_held_back_and_was_none_is_not_made_up_for(rig: Rig) -> None:
    """What began again in the night ends by day with a message of its own, which is no summary of the night."""
    at(rig, 2026, 11, 23, 20, 50)
    rig.put(quietHours=BERLIN)
    rig.begins()
    rig.pass_time(300)
    at(rig, 2026, 11, 23, 23, 0)
    rig.ends()
    rig.pass_time(600)
    rig.begins()
    assert rig.pass_time(600) == []
    at(rig, 2026, 11, 24, 6, 0)
    assert rig.pass_time(3600) == []
    rig.ends()
    (recovered,) = rig.pass_time(600)
    assert (recovered.what, recovered.title) == ("recovered", "Resolved: Destination crm keeps failing")


def test_what_is_critical_may_break_the_quiet(rig: Rig) -> None:
    """Severities in `except` are said at once."""
    at(rig, 2026, 11, 23, 22, 0)
    rig.put(quietHours={**BERLIN, "except": ["critical"]})
    rig.begins("crm")
    rig.begins("erp", "destination_gone")
    assert whats(rig.pass_time(300)) == ["opened"]


def test_a_channel_that_fails_is_a_notice_until_a_message_arrives(rig: Rig) -> None:
    """From the second failure of a message on, or a final one; a test that arrives ends it, and so does the rule."""
    condition = FailingChannels(rig.log)

    def failing() -> list[str]:
        rules = [stored.object for stored in rig.store.in_force("notification")]
        return [each.detail for each in condition.findings(Moment(rig.now_ms, {}, rules=rules))]

    rig.channels.results = [Result("busy"), Result("busy")]
    rig.begins()
    rig.pass_time(90)
    assert failing() == []
    rig.pass_time(30)
    assert failing() == ["e-mail to a@b.example: busy"]
    (rule,) = [stored.object for stored in rig.store.in_force("notification")]
    asyncio.run(rig.watch.test(rule, rule.channels[0]))
    assert failing() == []
    rig.channels.results = [Result("no such user", final=True)]
    asyncio.run(rig.watch.test(rule, rule.channels[0]))
    assert failing() == ["e-mail to a@b.example: no such user"]
    rig.put(to={"email": ["other@b.example"]})
    assert failing() == []


def test_a_moment_in_the_message_of_an_outage_does_not_hide_the_next(rig: Rig) -> None:
    """A new event name goes with an outage; another one is notified although the outage goes on."""
    rig.put(when=["destination_failing", "new_event_name"])
    rig.look()
    rig.begins("site", kind="event_name_new", detail="A")
    rig.look()
    rig.begins("crm")
    assert [len(each.items) for each in rig.pass_time(90)] == [2]
    rig.pass_time(600)
    rig.begins("site", kind="event_name_new", detail="Brand New")
    sent = rig.pass_time(300)
    assert ["Brand New" in item.message for each in sent for item in each.items] == [True]
