"""The search for anything, as the admin API answers: what is found, in which order, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from hookline.control.pages import RAIL
from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.features.privacy.service import deletion_requests
from hookline.features.search.service import ACTIONS, GO_TO, EventNames, doc_headings
from hookline.features.settings.pages import TABS
from hookline.privacy.search import SearchResult
from hookline.web.docs import PAGES
from tests.unit.control.running import Running
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.audiences.test_audience_reach import People, defined
from tests.unit.features.people.test_persons import JOURNEY, of

__all__ = ["defined"]

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def people(defined: Running) -> Iterator[People]:
    """Profiles of a few people."""
    traits = {"email": "Zora@Example.com", "name": "Zora Neale", "plan": "secretplan"}
    defined.append(
        *JOURNEY,
        of("z1", "identify", "u-zora", None, traits=traits),
        of("z2", "identify", "h", None, traits={"name": HOSTILE}),
    )
    ensure(location_of(defined.settings, "profiles"), "profiles")
    found = People(defined)
    found.keep()
    found.apply()
    yield found
    found.close()


def search(control: Running, text: str, **options: Any) -> dict[str, list[dict[str, str]]]:
    """The results by kind."""
    answer = control.call("GET", f"/api/v1/search?q={quote(text)}", **options)
    assert answer.status == 200, answer.text
    return {group["kind"]: group["items"] for group in answer.json["groups"]}


def test_people_are_found_by_beginnings_and_lead_to_their_page(people: People) -> None:
    """By e-mail, a word of the name, or an id; what was sent stays text."""
    for text in ("zora@ex", "ZORA", "neale", "u-zo"):
        (found,) = search(people.control, text)["person"]
        assert (found["title"], found["href"]) == ("Zora Neale", "/people/user/u-zora")
        assert found["detail"] == "Zora@Example.com · u-zora"
    assert search(people.control, "<img")["person"][0]["title"] == HOSTILE
    assert "person" not in search(people.control, "secretplan")
    assert search(people.control, "") == search(people.control, "\t ") == {}


def test_nobody_is_found_whose_data_is_withheld(people: People) -> None:
    """From the moment somebody asks for it, by whichever id, not only once it is gone."""
    requests = deletion_requests(people.control.services)
    of_earlier_id = requests.create(["zora-before"], "delete", "somebody")
    assert "person" in search(people.control, "zora@")
    found = SearchResult(["zora-before"])
    found.ids[0]["u-zora"] = True
    requests.plan(of_earlier_id, found, [])
    assert "person" not in search(people.control, "zora@")
    requests.finish(of_earlier_id.number)
    requests.create(["u-zora"], "delete", "somebody")
    assert "person" not in search(people.control, "zora@")
    requests.create(["ann"], "suppress", "somebody")
    assert all(each["title"] != "ann" for each in search(people.control, "ann").get("person", ()))
    listed = people.control.call("GET", "/api/v1/people/search").json["items"]
    assert {each["userId"] for each in listed}.isdisjoint({"u-zora", "ann"})
    assert "ben" in {each["userId"] for each in listed}


def test_ids_come_first(people: People) -> None:
    """An event by its whole message id; deletion requests by theirs."""
    assert search(people.control, "j3") == search(people.control, "j3", token=True)
    request = deletion_requests(people.control.services).create(["nobody"], "suppress", "somebody")
    found = search(people.control, f"dr{request.number}")
    assert next(iter(found)) == "id"
    assert found["id"][0]["href"] == f"/deletion-requests/dr{request.number}"
    people.control.append(of("message-17", "track", "ann", None, event="Order"))
    event = search(people.control, "message-17")["id"]
    assert event == [{"title": "message-17", "detail": "track, Site", "href": "/events/message-17?source=site"}]
    assert "id" not in search(people.control, "message-1")


def test_objects_pages_actions_and_documentation(people: People) -> None:
    """By the beginning of a name, of its words, or a part; what is exact comes first."""
    assert search(people.control, "buyers")["audience"][0]["href"] == "/audiences/buyers"
    assert search(people.control, "webhooks endpoints")["page"][0]["title"] == "Destinations"
    assert search(people.control, "estinat")["page"][0]["title"] == "Destinations"
    assert search(people.control, "pause a dest")["doc"][0]["href"] == "/docs/how-to/pause-safely"
    assert next(iter(search(people.control, "usage"))) == "page"
    destination = people.control.services.store.destinations()[0].object
    actions = search(people.control, f"pause {destination.name}")["action"]
    assert actions[0]["href"] == f"/destinations/{destination.id}#pause"


def test_names_of_events_are_read_once_for_all_that_somebody_types() -> None:
    """For as long as they took to read, many times over; few names are read each time, so that a new one is found."""
    now, took, reads = 0.0, 0.5, 0

    def read() -> list[tuple[str, str, str]]:
        nonlocal now, reads
        now, reads = now + took, reads + 1
        return [("site", "track", "Order: Completed"), ("site", "track", f"Read {reads}")]

    names = EventNames(read, lambda: now)
    for typed in (["o"], ["order", "comp"], ["read"], ["nothing"]):
        found = [each.name for each in names.holding(typed)]
    assert (found, reads) == ([], 1)
    now += 60
    assert [each.name for each in names.holding(["read"])] == ["Read 2"]
    took, now = 0.0, now + 60
    for number in (3, 4):
        assert [each.name for each in names.holding(["read"])] == [f"Read {number}"]


def test_everything_it_leads_to_is_there(people: People) -> None:
    """Every page of the rail and every tab is among the pages, and every page and dialog that is named exists."""
    assert {stop.href for stop in RAIL} - {"/settings"} <= {place.href for place in GO_TO}  # which leads to its tabs
    assert {href for _, href, _ in TABS} <= {place.href for place in GO_TO}
    assert {doc.href for doc in PAGES} <= {href for _, _, href in doc_headings()}
    headers = sign_in(people.control)
    for place in (*GO_TO, *ACTIONS):
        path, _, dialog = place.href.partition("#")
        if path:
            answer = people.control.call("GET", path, headers=headers, token=False)
            assert answer.status == 200, place.href
            assert not dialog or f'id="{dialog}"' in answer.text, place.href
