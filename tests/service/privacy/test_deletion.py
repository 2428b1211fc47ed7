"""Deletion in the running service: who is told, what is left in the files, and what a crash changes (nothing)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

from tests.service.crash.begun import Begun
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Reply, Request, free_port, wait_until, webhook

USER, ANONYMOUS, SECRET = "person-of-the-test", "anonymous-of-the-test", "value-of-the-test"
PERSONAL = (USER, ANONYMOUS, SECRET)
SITE = {"id": "site", "name": "Site", "type": "server", "writeKeys": [WRITE_KEY]}
APP = {"id": "app", "name": "App", "type": "mobile", "writeKeys": ["wk_app"]}
BLOG = {"id": "blog", "name": "Blog", "type": "web", "writeKeys": ["wk_blog"]}


def left_in(hookline: Hookline) -> dict[str, list[str]]:
    """The personal texts that are in some file of the data folder, by file."""
    found: dict[str, list[str]] = {}
    for path in hookline.data.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            texts = [text for text in PERSONAL if text.encode() in data]
            if texts:
                found[str(path.relative_to(hookline.data))] = texts
    return found


def ask(hookline: Hookline, action: str = "delete", user: str = USER) -> str:
    """Make a request and return its id."""
    made = hookline.api("POST", "deletion-requests", {"userId": user, "action": action})
    assert made.status == 201, made
    return str(made.json["id"])


def state(hookline: Hookline, id: str) -> str:
    """How far a request has come."""
    return str(hookline.api("GET", f"deletion-requests/{id}").json["state"])


def wait_done(hookline: Hookline, id: str) -> None:
    """Wait until a request is done."""
    wait_until(lambda: state(hookline, id) == "done", what=f"{id} done")


def deletes(receiver: Receiver, path: str) -> list[dict[str, Any]]:
    """The delete messages that arrived at a path."""
    return [r.json for r in receiver.requests if r.path == path and r.json["type"] == "delete"]


def tell_story(hookline: Hookline, receiver: Receiver) -> None:
    """A person before and after the login, in two sources, refused once; and somebody else. Names hold the id, too."""
    hookline.track(f"Order of {USER}", userId=None, anonymousId=ANONYMOUS, properties={"note": SECRET, USER: {USER: 1}})
    alias = {"userId": USER, "previousId": ANONYMOUS, "messageId": f"alias-{USER}"}
    assert hookline.post("/v1/alias", alias).status == 200
    identify = {"userId": USER, "anonymousId": ANONYMOUS, "traits": {"mail": SECRET}}
    assert hookline.post("/v1/identify", identify, key="wk_app").status == 200
    assert hookline.post("/v1/track", {"userId": USER, "properties": {"note": SECRET}}).status == 400
    assert hookline.post("/v1/track", f'{{"userId": "{USER}", broken'.encode()).status == 400
    other = hookline.track(userId="somebody-else")
    receiver.wait_for(other)


def service(new_hookline: Callable[..., Hookline], receiver: Receiver) -> Hookline:
    """Three sources and a destination for each; the person has data in two of them."""
    return new_hookline(*destinations(receiver), sources=[SITE, APP, BLOG])


def destinations(receiver: Receiver) -> list[dict[str, Any]]:
    """One for each source."""
    return [webhook(f"to_{id}", receiver.url(f"/{id}"), sources=[id]) for id in ("site", "app", "blog")]


def test_affected_sources_are_told_and_the_person_is_gone(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """One message per affected source, with three fields, and none for others, nor for somebody unknown; then no file
    holds an id or a value, also after a restart; what others sent stays."""
    with service(new_hookline, receiver) as hookline:
        tell_story(hookline, receiver)
        wait_done(hookline, ask(hookline, user="nobody"))
        assert not any(request.json["type"] == "delete" for request in receiver.requests)
        assert left_in(hookline), "the search finds what is there"
        wait_until(lambda: USER in hookline.api("GET", "sources/site/schema").body.decode(), what="the name is known")
        replayed = {"destination": "to_site", "userId": USER, "dryRun": False}
        assert hookline.api("POST", "replays", replayed).status == 201
        id = ask(hookline)
        wait_done(hookline, id)
        evidence = hookline.api("GET", f"deletion-requests/{id}/evidence")
        (person,) = evidence.json["people"]
        assert (evidence.json["complete"], person["identities"], person["events"]) == (True, 2, 4)
        assert {each["source"]: each["events"] for each in person["sources"]} == {"site": 3, "app": 1}
        for source in person["sources"]:
            (acknowledged,) = source["destinations"]
            assert (acknowledged["destination"], acknowledged["status"]) == (f"to_{source['source']}", "delivered")
        assert evidence.json["erased"]["events"] == 5
        assert not any(text in evidence.body.decode() for text in PERSONAL)
        (site,), (app,) = deletes(receiver, "/site"), deletes(receiver, "/app")
        assert deletes(receiver, "/blog") == []
        assert [list(body) for body in (site, app)] == [["type", "userId", "timestamp"]] * 2
        assert site["userId"] == app["userId"] == USER
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")
        hookline.restart()
        assert left_in(hookline) == {}
        events = hookline.api("GET", "events?limit=200").json["items"]
        assert "somebody-else" in json.dumps(events)
        gone = [event for event in events if event["status"] == "erased"]
        assert gone
        assert {(event["messageId"], event["event"]) for event in gone} == {("", None)}


def test_the_profile_goes_too(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Member of an audience, with traits and values: no file holds anything of it, under any id, and no sync tells
    anything about the person afterwards, also after a restart; others are still told."""
    spend = {"id": "notes", "name": "Notes", "event": "Order", "aggregate": "last", "property": "properties.note"}
    definitions = {
        "audiences": [
            {"id": "buyers", "name": "Buyers", "destinations": ["crm"], "syncEvery": 1, "condition": {"event": "Order"}}
        ],
        "computedTraits": [{**spend, "destinations": ["crm"], "syncEvery": 1}],
    }
    with new_hookline(webhook("crm", receiver.url()), sources=[SITE], definitions=definitions) as hookline:
        hookline.track("Order", userId=None, anonymousId=ANONYMOUS, properties={"note": SECRET})
        identify = {"userId": "earlier-id", "anonymousId": ANONYMOUS, "traits": {"mail": SECRET}}
        assert hookline.post("/v1/identify", identify).status == 200
        assert hookline.post("/v1/alias", {"userId": USER, "previousId": "earlier-id"}).status == 200
        wait_until(lambda: "notes" in told_traits(receiver, USER), what="the sync told the value")
        wait_until(lambda: "buyers" in told_traits(receiver, USER), what="the sync told the audience")
        asked = hookline.api("POST", "audience-previews", {"computedTrait": spend}).json["id"]
        wait_until(lambda: sample(hookline, asked) == [(USER, SECRET)], what="the person in the sample of a preview")
        assert "profiles.db" in left_in(hookline) or "profiles.db-wal" in left_in(hookline)
        id = ask(hookline, user="earlier-id")
        wait_done(hookline, id)
        evidence = hookline.api("GET", f"deletion-requests/{id}/evidence").json
        assert evidence["erased"]["profiles"] == 1
        assert evidence["erased"]["profileEntries"] >= 2
        assert evidence["people"][0]["identities"] == 3
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")
        assert sample(hookline, asked) == []
        seen = len(receiver.requests)
        hookline.restart()
        hookline.track("Order", userId="somebody-else", properties={"note": "x"})
        wait_until(lambda: "buyers" in told_traits(receiver, "somebody-else"), what="others are told")
        wait_until(lambda: "notes" in told_traits(receiver, "somebody-else"), what="others are told")
        assert not any(request.json.get("userId") in (USER, "earlier-id") for request in receiver.requests[seen:])
        assert left_in(hookline) == {}


def test_who_was_told_by_a_sync_alone_is_told_of_the_deletion(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """A destination that no source of the person reaches gets one delete message if an audience was sent to it; one
    that got nothing of the person gets none, nor does one that a source reaches get a second."""
    buyers = {"id": "buyers", "name": "Buyers", "syncEvery": 1, "condition": {"event": "Order"}}
    lookers = {"id": "lookers", "name": "Lookers", "syncEvery": 1, "condition": {"event": "Looked"}}
    definitions = {
        "audiences": [{**buyers, "destinations": ["ads", "crm"]}, {**lookers, "destinations": ["other"]}],
    }
    reached = {"crm": ["site"], "ads": [], "other": []}
    destinations = [webhook(id, receiver.url(f"/{id}"), sources=sources) for id, sources in reached.items()]
    with new_hookline(*destinations, sources=[SITE], definitions=definitions) as hookline:
        hookline.track("Order", userId=USER)
        wait_until(lambda: {r.path for r in receiver.requests} >= {"/ads", "/crm"}, what="the sync told both")
        id = ask(hookline)
        wait_done(hookline, id)
        assert [body["userId"] for body in deletes(receiver, "/ads")] == [USER]
        assert len(deletes(receiver, "/crm")) == 1
        assert deletes(receiver, "/other") == []
        (person,) = hookline.api("GET", f"deletion-requests/{id}/evidence").json["people"]
        told = {each["source"]: [to["destination"] for to in each["destinations"]] for each in person["sources"]}
        assert told == {"profiles": ["ads"], "site": ["crm"]}
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")


def sample(hookline: Hookline, preview: str) -> list[tuple[str, Any]]:
    """The people that a preview shows, with their values."""
    found = hookline.api("GET", f"audience-previews/{preview}").json
    return [(each["userId"], each["value"]) for each in found["sample"]]


def test_profiles_die_before_they_answer(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """The person is taken out once more by the next process, and the request is done with one profile counted."""
    audience = {"id": "buyers", "name": "Buyers", "destinations": ["crm"], "syncEvery": 1}
    definitions = {"audiences": [{**audience, "condition": {"event": "Order"}}]}
    with new_hookline(webhook("crm", receiver.url()), sources=[SITE], definitions=definitions) as hookline:
        hookline.track("Order", userId=USER, properties={"note": SECRET})
        wait_until(lambda: "buyers" in told_traits(receiver, USER), what="the sync told the audience")
    hookline.environment["HOOKLINE_CRASH_POINT"] = "profiles.erased_before_answer"
    with hookline:
        id = ask(hookline)
        wait_until(lambda: "profiles ended by SIGKILL" in hookline.log, what="the armed point")
        wait_done(hookline, id)
        assert hookline.api("GET", f"deletion-requests/{id}/evidence").json["erased"]["profiles"] == 1
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")


def told_traits(receiver: Receiver, user: str) -> set[str]:
    """The names of the traits that identify calls told about a user."""
    return {
        name
        for request in receiver.requests
        if request.json["type"] == "identify" and request.json.get("userId") == user
        for name in request.json["traits"]
    }


def test_what_a_dead_receiver_left_behind_goes_too(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Dead letters and retries with answers that echo the event or name the person, and events still queued, are erased
    and never sent; only the delete message waits, and is delivered when the receiver is back."""
    says = cycle([lambda body: body, lambda _: f"No such person: {USER}".encode()])
    receiver.respond = lambda request: Reply(400 if b"Refused" in request.body else 503, body=next(says)(request.body))
    hookline = new_hookline(webhook("crm", receiver.url()), sources=[SITE])
    with hookline:
        for refused in [hookline.track("Refused", userId=USER, properties={"note": SECRET}) for _ in range(2)]:
            hookline.wait_status(refused, "crm", "failed")
        waiting = [hookline.track(userId=USER, properties={"note": SECRET}) for _ in range(30)]
        hookline.wait_status(waiting[0], "crm", "retrying")
        id = ask(hookline)
        wait_until(lambda: state(hookline, id) == "waiting", what="only the message is open")
        assert all(texts == [USER] for texts in left_in(hookline).values()), left_in(hookline)
        seen = len(receiver.requests)
        receiver.respond = lambda request: Reply()
        wait_done(hookline, id)
        after = [request.json for request in receiver.requests[seen:] if request.json["type"] != "delete"]
        assert all(body.get("properties") != {"note": SECRET} for body in after[1:]), "at most what was on the wire"
        assert len(deletes(receiver, "/hook")) >= 1
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")
        assert hookline.api("GET", "dead-letters").json["items"] == []


@pytest.mark.parametrize("status", [400, 500])
def test_what_a_receiver_said_of_a_batch_goes_with_the_first_person_of_it(
    new_hookline: Callable[..., Hookline], receiver: Receiver, status: int
) -> None:
    """It answers with all it was sent, about the events of others too; what became of these is known still."""
    receiver.respond = lambda request: Reply(
        status, b'{"error": "no", "received": ' + request.body + b"}", {"X-Echo": request.body.decode()}
    )
    body = {"user": {"@path": "$.userId"}, "note": {"@path": "$.properties.note"}}
    request = {"name": "events", "url": receiver.url("/in"), "if": 'type = "track"', "body": body}
    batched = {**request, "batch": {"size": 10, "wait": 1.0}}
    api = {"id": "api", "name": "API", "kind": "http", "sources": ["site"], "settings": {}, "mapping": [batched]}
    with new_hookline(api, sources=[SITE], settings={"deliver.retry_first": "30s"}) as hookline:
        notes = {"ma": (USER, SECRET), "mb": ("somebody-else", "x")}
        items = [
            {"type": "track", "event": "Order", "messageId": id, "userId": user, "properties": {"note": note}}
            for id, (user, note) in notes.items()
        ]
        assert hookline.post("/v1/batch", {"batch": items}).status == 200
        wait_until(lambda: all(attempts(hookline, id) for id in notes), what="an attempt of each")
        wait_done(hookline, ask(hookline))
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")
        assert [each["httpStatus"] for each in attempts(hookline, "mb")] == [status]


def attempts(hookline: Hookline, id: str) -> list[dict[str, Any]]:
    """The attempts of an event at its only destination."""
    found = hookline.event(id) or {}
    return [attempt for at in found.get("destinations", ()) for attempt in at["attempts"]]


@pytest.mark.parametrize("target", ["replays", "dead-letters/retry", "dead-letters/discard"])
def test_an_event_name_that_holds_the_id_goes_from_what_was_asked_with_it(
    new_hookline: Callable[..., Hookline], receiver: Receiver, target: str
) -> None:
    """Also from what deliver took of it, and from the audit log."""
    name = f"Order of {USER}"
    receiver.respond = lambda request: Reply(400 if b"Order" in request.body else 200)
    with new_hookline(webhook("crm", receiver.url()), sources=[SITE]) as hookline:
        hookline.wait_status(hookline.track(name, userId=USER), "crm", "failed")
        assert hookline.api("POST", target, {"destination": "crm", "event": name}).status < 300
        wait_done(hookline, ask(hookline))
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")


def test_both_also_stores_nothing_more(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """After a request for both, neither id is stored again, and the delete message is not suppressed itself."""
    with service(new_hookline, receiver) as hookline:
        tell_story(hookline, receiver)
        wait_done(hookline, ask(hookline, "both"))
        assert len(deletes(receiver, "/site")) == 1
        for ids in ({"userId": USER}, {"userId": None, "anonymousId": ANONYMOUS}):
            assert hookline.event(hookline.track(**ids, properties={"note": SECRET})) is None
        wait_until(lambda: not left_in(hookline), what="nothing left")


POINTS = [
    "privacy.looked_up",
    "privacy.sent",
    "journal.erase_intent_written",
    "journal.erase_half_written",
    "journal.erase_before_intent_removed",
    "privacy.journal_erased",
    "deliver.before_checkpoint:3",
    "deliver.erased_before_answer",
    "privacy.ids_forgotten",
]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """Tell the story, to a receiver that each test replaces by one of its own."""
    with Receiver(port=free_port()) as receiver:
        hookline = Hookline(tmp_path_factory.mktemp("story"), destinations(receiver), sources=[SITE, APP, BLOG])
        with hookline:
            tell_story(hookline, receiver)
    return Begun(hookline, receiver.port)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_changes_nothing(new_hookline: Callable[..., Hookline], story: Begun, point: str) -> None:
    """Whatever dies in the middle: the request is done, each source is told (a repeat has the same messageId), and
    nothing of the person is left."""
    hookline = story.copied(new_hookline)
    hookline.environment["HOOKLINE_CRASH_POINT"] = point
    with Receiver(port=story.port) as receiver, hookline:
        id = ask(hookline)
        wait_until(lambda: "starting it again" in hookline.log, what=f"a role died at {point}")
        hookline.wait_ready()
        wait_done(hookline, id)
        for path in ("/site", "/app"):
            assert len(ids_of(receiver, path)) == 1
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")


def ids_of(receiver: Receiver, path: str) -> set[str]:
    """The messageIds of the delete messages at a path."""
    wanted: list[Request] = [r for r in receiver.requests if r.path == path and r.json["type"] == "delete"]
    return {request.message_id for request in wanted}


def test_kill_9_of_everything_in_the_middle(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """All processes at once, right after the request was taken."""
    with service(new_hookline, receiver) as hookline:
        tell_story(hookline, receiver)
        id = ask(hookline, "both")
        hookline.kill9()
        hookline.start()
        wait_done(hookline, id)
        assert len(ids_of(receiver, "/site")) == len(ids_of(receiver, "/app")) == 1
        wait_until(lambda: not left_in(hookline), what=f"nothing left, but {left_in(hookline)}")


def test_a_refused_delete_message_is_sent_again_and_the_operator_told(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """The request stays open with the data erased, a second try is planned, and a notice names the destination."""
    receiver.respond = lambda request: Reply(400 if request.path == "/hook" and b'"delete"' in request.body else 200)
    destinations = webhook("crm", receiver.url()), webhook("mail", receiver.url("/mail"))
    with new_hookline(*destinations, sources=[SITE]) as hookline:
        receiver.wait_for(hookline.track(userId=USER, properties={"note": SECRET}), count=2)
        id = ask(hookline)
        query = "notices?state=open&kind=deletion_not_acknowledged"
        (notice,) = wait_until(lambda: hookline.api("GET", query).json["items"], what="the operator is told")
        assert notice["subject"] == "crm"
        evidence = hookline.api("GET", f"deletion-requests/{id}/evidence").json
        assert (evidence["complete"], evidence["state"]) == (False, "waiting")
        (source,) = evidence["people"][0]["sources"]
        assert source["tries"] == 1
        assert {each["destination"]: each["status"] for each in source["destinations"]} == {
            "crm": "open",
            "mail": "delivered",
        }
        assert not any(SECRET in texts for texts in left_in(hookline).values())
