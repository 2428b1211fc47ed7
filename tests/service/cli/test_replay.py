"""`hookline replay` and `hookline dead-letters` against a running service."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, wait_until, webhook


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hookline, Receiver]]:
    """One service for all: each test has events of its own name."""
    with (
        Receiver() as receiver,
        Hookline(tmp_path_factory.mktemp("replay") / "h", [webhook("crm", receiver.url())]) as hookline,
    ):
        yield hookline, receiver
        assert "Traceback (most recent call last)" not in hookline.log, hookline.log[-4000:]


@pytest.fixture
def hookline(answers: tuple[Hookline, Receiver]) -> Hookline:
    """The service."""
    return answers[0]


@pytest.fixture
def receiver(answers: tuple[Hookline, Receiver]) -> Receiver:
    """Its receiver, healthy."""
    answers[1].reply_with(200)
    return answers[1]


def test_counted_sent_and_listed(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """A dry run only counts; a replay counts first, ends with a line, and is in the list."""
    ids = [hookline.track(event="Order") for _ in range(3)]
    for id in ids:
        receiver.wait_for(id)
    dry = run(hookline, "replay", "--destination", "crm", "--event", "Order", "--from", "1h", "--dry-run")
    assert dry.stdout.startswith("3 events to crm, about ")
    assert ids[0] in dry.stdout
    assert [len(receiver.of(id)) for id in ids] == [1, 1, 1]
    done = run(hookline, "replay", "--destination", "crm", "--message-id", ids[0], "--message-id", ids[2], "--yes")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert "done  to crm, 2 of 2" in last
    assert last in run(hookline, "replay", "list").stdout
    assert run(hookline, "replay", "list", "--limit", "1").stdout.splitlines() == [last]
    assert run(hookline, "replay", "list", "--limit", "0").returncode == 2
    assert [len(receiver.of(id)) for id in ids] == [2, 1, 2]
    assert "replay r" in run(hookline, "why", ids[0]).stdout


def test_paused_resumed_and_cancelled(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """Each verb shows how the replay then stands."""
    for id in [hookline.track() for _ in range(20)]:
        receiver.wait_for(id)
    begun = run(hookline, "replay", "--destination", "crm", "--rate", "1", "--detach", "--json", "--yes")
    id = json.loads(begun.stdout)["id"]
    assert f"{id}  paused" in run(hookline, "replay", "pause", id).stdout
    assert "at most 2/s" in run(hookline, "replay", "resume", id, "--rate", "2").stdout
    assert f"{id}  cancel" in run(hookline, "replay", "cancel", id).stdout
    watched = run(hookline, "replay", "watch", id)
    assert (watched.returncode, f"{id}  cancelled" in watched.stdout) == (1, True)
    assert "r9999" in run(hookline, "replay", "show", "r9999").stderr


def test_dead_letters_may_be_limited_in_time(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """The time of the one option holds where the other one is given too."""
    receiver.reply_with(422)
    hookline.wait_status(hookline.track(event="Late"), "crm", "failed")
    dry = ("replay", "--destination", "crm", "--event", "Late", "--dry-run", "--dead-letters")
    assert run(hookline, *dry).stdout.startswith("1 event to crm")
    later = run(hookline, *dry, "--dead-lettered-since", "2100-01-01T00:00:00Z")
    assert "no stored event matches" in later.stdout
    assert run(hookline, "dead-letters", "discard", "--all", "--yes").returncode == 0


def test_no_more_is_sent_than_was_counted(
    hookline: Hookline, receiver: Receiver, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that come while somebody reads the question are not sent again."""
    monkeypatch.setattr(
        "hookline.features.replays.cli.confirm",
        lambda *_: hookline.wait_status(hookline.track(event="Asked"), "crm", "delivered"),
    )
    hookline.wait_status(hookline.track(event="Asked"), "crm", "delivered")
    done = run(hookline, "replay", "--destination", "crm", "--event", "Asked")
    assert "done  to crm, 1 of 1" in done.stdout.splitlines()[-1], done


def test_nothing_to_send_and_wrong_usage(hookline: Hookline, run: Run) -> None:
    """No match is said and sends nothing; a time that is none is wrong usage, an unknown destination a failure."""
    assert "no stored event matches" in run(hookline, "replay", "--destination", "crm", "--event", "None").stdout
    assert run(hookline, "replay", "--destination", "crm", "--from", "soon").returncode == 2
    assert run(hookline, "replay", "--destination", "nobody").returncode == 1
    assert run(hookline, "dead-letters", "retry").returncode == 2
    assert run(hookline, "dead-letters", "discard", "x1").returncode == 2


def test_nothing_is_sent_or_discarded_unasked(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """Where nobody can answer, each says what it would do and how to have it done, and does nothing."""
    id = hookline.track(event="Kept")
    receiver.wait_for(id)
    before = hookline.api("GET", "replays").json["items"]
    refused = run(hookline, "replay", "--destination", "crm", "--event", "Kept")
    assert refused.returncode == 2
    assert refused.stderr.startswith("hookline: Send 1 event to crm? Nobody can answer here: nothing was sent.")
    assert "--yes" in refused.stderr
    for words in (
        ("dead-letters", "retry", "1"),
        ("dead-letters", "discard", "1"),
        ("secrets", "rotate", "crm"),
        ("try", "crm"),
        ("disable", "crm", "--waiting", "discard"),
        ("delete-user", "u1", "--action", "delete"),
    ):
        done = run(hookline, *words)
        assert (done.returncode, "--yes" in done.stderr, done.stdout) == (2, True, ""), (words, done.stderr)
    assert hookline.api("GET", "destinations/crm").json["enabled"] is True
    assert hookline.api("GET", "replays").json["items"] == before
    assert len(receiver.of(id)) == 1


def test_dead_letters(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """Listed, shown with event and attempts, one discarded, the rest retried."""
    receiver.reply_with(422)
    ids = [hookline.track(event="Refused") for _ in range(3)]
    wait_until(lambda: len(hookline.api("GET", "dead-letters").json["items"]) == 3, what="dead letters")
    listed = run(hookline, "dead-letters", "list", "--destination", "crm", "--event", "Refused").stdout.splitlines()
    assert len(listed) == 3
    assert "refused 422" in listed[0]
    number = listed[0].split()[0]
    shown = run(hookline, "dead-letters", "show", number).stdout
    assert "attempt 1  refused" in shown
    assert '"event": "Refused"' in shown
    assert run(hookline, "dead-letters", "discard", number, "--yes").stdout == "1 discarded\n"
    receiver.reply_with(200)
    assert "to crm" in run(hookline, "dead-letters", "retry", "--all", "--yes", "--rate", "100").stdout
    wait_until(lambda: run(hookline, "dead-letters", "list").stdout == "there are none\n", what="all retried")
    assert sum(len(receiver.of(id)) for id in ids) == 5
