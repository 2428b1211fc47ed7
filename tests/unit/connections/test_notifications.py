"""Notification rules as objects: what is wrong with them, their secrets, and the way through the file and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hookline.connections import file
from hookline.connections.edits import Delete, Put
from hookline.connections.notification_secrets import hidden
from hookline.connections.notifications import Notification, lowest_seconds, notification_problems
from hookline.connections.past import Past, way_back
from hookline.connections.store import ChangeRefused, Store
from tests.unit.conftest import LocationOf
from tests.unit.connections.examples import change, destination, ends, source

SLACK = "https://hooks.slack.com/services/T0/B0/very-secret"
HOOK = {"webhook": {"url": "https://hook.example/x", "secret": "a-long-secret"}}
TEXT = f"""
sources: [{{id: website, name: Website, writeKeys: [wk_website]}}]
destinations:
- {{id: crm, name: CRM, sources: [website], settings: {{webhooks: [{{url: 'https://crm.example.com/'}}]}}}}
notifications:
- id: ops
  name: Operators
  when: [destination_failing, dead_letters]
  destinations: [crm]
  threshold: {{for: 5m, count: 50}}
  to:
  - {{email: [ops@example.com]}}
  - {{slack: {{url: '{SLACK}'}}}}
  - {{webhook: {{url: 'https://hook.example/x', secret: a-long-secret}}}}
  quietHours: {{from: '22:00', to: '07:00', timeZone: Europe/Berlin, days: [mon], except: [critical]}}
  remindEvery: 4h
- {{id: disk, name: Disk, when: [disk_low], to: {{email: [ops@example.com]}}}}
"""


def rule(**given: Any) -> Notification:
    """A rule with one channel."""
    fields = {"id": "ops", "name": "Operators", "when": ["destination_failing"], "to": {"email": ["a@b.example"]}}
    return msgspec.convert({**fields, **given}, Notification)


@pytest.fixture
def store(location_of: LocationOf) -> Iterator[Store]:
    """An empty installation."""
    made = Store(location_of("control"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("given", "path", "says"),
    [
        ({"when": ["destination_fails"]}, "when[0]", "there is no trigger"),
        ({"when": ["disk_low", "disk_low"]}, "when[1]", "twice"),
        ({"when": ["disk_low"], "destinations": ["crm"]}, "destinations", "nothing in `when` is about a destination"),
        ({"sources": ["website"]}, "sources", "nothing in `when` is about a source"),
        ({"threshold": {"count": 5}}, "threshold.count", "dead_letters, rejected_events alone"),
        (
            {"when": ["dead_letters"], "threshold": {"failedShare": 0.5}},
            "threshold.failedShare",
            "destination_failing alone",
        ),
        ({"when": ["new_event_name"], "threshold": {"for": "5m"}}, "threshold.for", "means something for"),
        ({"threshold": {"for": "soon"}}, "threshold.for", "write a duration"),
        ({"remindEvery": "10s"}, "remindEvery", "from 300s"),
        ({"to": [{}]}, "to[0]", "exactly one of"),
        ({"to": [{"email": ["a@b.example"], "slack": {"url": SLACK}}]}, "to[0]", "exactly one of"),
        ({"to": {"email": ["Ops <a@b.example>"]}}, "to[0].email[0]", "write an address"),
        ({"to": {"email": ["a@b.example\nBcc: c@d.example"]}}, "to[0].email[0]", "write an address"),
        ({"to": {"slack": {"url": "hooks.slack.com"}}}, "to[0].slack.url", "full URL"),
        ({"to": {"slack": {"url": "env:PATH"}}}, "to[0].slack.url", "HOOKLINE_SECRET_"),
        ({"to": {"webhook": {"url": "ftp://x"}}}, "to[0].webhook.url", "full URL"),
        ({"quietHours": {"from": "22:00", "to": "22:00"}}, "quietHours.to", "none"),
        (
            {"quietHours": {"from": "22:00", "to": "07:00", "timeZone": "Europe/Nowhere"}},
            "quietHours.timeZone",
            "no such time zone",
        ),
        (
            {"quietHours": {"from": "22:00", "to": "07:00", "timeZone": "../etc/passwd"}},
            "quietHours.timeZone",
            "no such time zone",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(given: dict[str, Any], path: str, says: str) -> None:
    """One problem each, at its place."""
    ((_, where, text),) = notification_problems(rule(**given))
    assert where == path
    assert says in text


def test_a_rule_may_name_only_what_there_is(store: Store) -> None:
    """And what a rule is about cannot be deleted under it."""
    with pytest.raises(ChangeRefused, match="no destination 'crm'"):
        change(store, Put(rule(destinations=["crm"])))
    change(store, source(), destination(), Put(rule(destinations=["crm"])))
    with pytest.raises(ChangeRefused, match="notification 'ops' is about destination 'crm'"):
        change(store, Delete("destination", "crm"))
    change(store, Delete("notification", "ops"), Delete("destination", "crm"))


def test_a_file_goes_out_and_comes_back_the_same(store: Store) -> None:
    """`keep` stands for the stored secrets, references and the rest as they were written; nothing changes by it."""
    applied = file.apply(store, TEXT, "me", ends(0))
    assert applied.problems == ()
    assert {(each.action, each.kind) for each in applied.changes} >= {("create", "notification")}
    exported = file.export(store.snapshot())
    assert "very-secret" not in exported
    assert "a-long-secret" not in exported
    again = file.apply(store, exported, "me", ends(0))
    assert again.problems == ()
    assert {each.action for each in again.changes} == {"keep"}
    stored = store.stored("notification", "ops")
    assert stored is not None
    assert stored.object.channels[1].slack.url == SLACK
    assert store.stored("notification", "disk").object.channels[0].email == ("ops@example.com",)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("remindEvery: 4h", "remind: 4h", "unknown key 'remind'; did you mean 'remindEvery'?"),
        ("- {email: [ops@example.com]}", "- {mail: [ops@example.com]}", "unknown key 'mail'; did you mean 'email'?"),
        ("to: {email: [ops@example.com]}}", "to: {emial: [ops@example.com]}}", "unknown key 'emial'"),
        ("destination_failing", "destination_fails", "no trigger 'destination_fails'"),
        ("from: '22:00'", "from: 22h", "quietHours"),
    ],
)
def test_a_wrong_file_says_where(old: str, new: str, says: str) -> None:
    """With the line, and the nearest key."""
    problems = file.check_text(TEXT.replace(old, new))
    assert problems
    assert any(says in str(problem) for problem in problems), problems
    assert all(problem.line for problem in problems)


def test_secrets_are_kept_by_masks_and_never_move(store: Store) -> None:
    """A mask stands for what it was made of; a secret to sign with stays with its receiver."""
    change(store, Put(rule(to=[{"slack": {"url": SLACK}}, HOOK])))
    shown = [{"slack": {"url": "…cret"}}, {"webhook": {"url": "https://hook.example/other", "secret": "…cret"}}]
    change(store, Put(rule(to=shown, name="New")))
    kept = store.stored("notification", "ops")
    assert kept is not None
    assert kept.object.channels[0].slack.url == SLACK
    assert kept.object.channels[1].webhook.secret == "a-long-secret"
    for moved in (
        [{"webhook": {"url": "https://evil.example/x", "secret": "keep"}}],
        [{"slack": {"url": "keep"}}, {"slack": {"url": "keep"}}],
        [{"slack": {"url": "…wrong"}}],
    ):
        with pytest.raises(ChangeRefused, match="no stored secret"):
            change(store, Put(rule(to=moved)))


def test_references_are_an_owners(store: Store) -> None:
    """Who may not refer to secrets may keep a reference, and may not make one, nor sign for another with it."""
    refers = {"webhook": {"url": "https://hook.example/x", "secret": "env:HOOKLINE_SECRET_A"}}
    change(store, Put(rule(to=refers)))
    store.may_refer = lambda: False
    change(store, Put(rule(to=refers, name="New")))
    for other in (
        {"slack": {"url": "env:HOOKLINE_SECRET_A"}},
        {"webhook": {"url": "https://evil.example/x", "secret": "env:HOOKLINE_SECRET_A"}},
    ):
        with pytest.raises(ChangeRefused, match="only an owner"):
            change(store, Put(rule(to=other)))


def test_history_shows_no_secret_and_leads_back(store: Store, location_of: LocationOf) -> None:
    """A version masks them; rolling back restores them as long as they are kept, and 30 days later they are gone."""
    change(store, Put(rule(to={"slack": {"url": SLACK}})))
    change(store, Put(rule(to={"email": ["a@b.example"]})))
    past = Past(location_of("control"))
    shown = str(past.version(2))
    past.close()
    assert "very-secret" not in shown
    assert "…cret" in shown
    _, edits = way_back(store, 1)
    change(store, *edits)
    assert store.stored("notification", "ops").object.channels[0].slack.url == SLACK  # type: ignore[union-attr]
    change(store, Put(rule()))
    store.remove_old_secrets(store.now_ms() + 1)
    assert store.snapshot(1).notifications[0].channels[0].slack.url == "keep"  # type: ignore[union-attr]


A, B = "https://hooks.slack.com/services/T0/B0/aaaaaaaaAAAA", "https://hooks.slack.com/services/T0/B0/bbbbbbbbBBBB"


def test_each_of_two_receivers_of_one_host_keeps_its_secret(store: Store) -> None:
    """An exported file that is applied unchanged changes nothing."""
    hooks = [
        {"webhook": {"url": f"https://hook.example/{name}", "secret": f"secret-of-{name}-0000"}} for name in ("a", "b")
    ]
    change(store, Put(rule(to=hooks)))
    for shown in (hidden(rule(to=hooks), keep=True), hidden(rule(to=hooks), keep=False)):
        change(store, Put(shown))
        kept = store.stored("notification", "ops")
        assert kept is not None
        assert [each.webhook.secret for each in kept.object.channels] == ["secret-of-a-0000", "secret-of-b-0000"]


def test_of_two_slack_channels_the_one_that_is_left_must_be_named(store: Store) -> None:
    """Which of them ``keep`` means is not certain where one was taken out: its mask says so."""
    both = rule(to=[{"slack": {"url": A}}, {"slack": {"url": B}}])
    change(store, Put(both))
    with pytest.raises(ChangeRefused, match="no stored secret"):
        change(store, Put(rule(to=[{"slack": {"url": "keep"}}])))
    change(store, Put(rule(to=[{"slack": {"url": "…BBBB"}}])))
    kept = store.stored("notification", "ops")
    assert kept is not None
    assert kept.object.channels[0].slack.url == B


@pytest.mark.parametrize("lasting", ["0s", "1s"])
def test_who_wants_to_hear_at_once_does(lasting: str) -> None:
    """No time at all would be no threshold, and so no notice for anybody."""
    asked = rule(threshold={"for": lasting})
    assert lowest_seconds([asked], "destination_failing", "crm", 300.0) == 1.0
