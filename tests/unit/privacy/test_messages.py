"""Delete messages: sent until they are acknowledged, for 30 days; what came of each is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.location import DatabaseLocation
from hookline.features.notices.conditions.destinations import Deletions
from hookline.features.notices.conditions.finding import Moment
from hookline.privacy import id_digest
from hookline.privacy.model import DeletionRequest, Message, Messages, NextTry, Receipt
from hookline.privacy.requests import Requests
from hookline.privacy.search import SearchResult
from hookline.privacy.suppressions import PrivacyStore, Suppressions
from tests.unit.conftest import LocationOf

NOW = 1_700_000_000_000


class Told:
    """A request whose person has data in two sources; one of them has two destinations."""

    def __init__(self, path: Path, location: DatabaseLocation) -> None:
        self.store = PrivacyStore(location)
        digests = id_digest.load(path)
        self.requests = Requests(self.store, digests, Suppressions(self.store, digests), lambda: NOW)
        self.messages = Messages(self.store, lambda: NOW)
        made = self.requests.create(["u1"], "delete", "me")
        found = SearchResult(["u1"])
        found.events[0] = Counter(site=3, app=1)
        self.requests.plan(made, found, [(0, "app", 1, ()), (0, "site", 3, ("crm", "mail"))])
        planned = self.requests.get(made.number)
        assert planned is not None
        self.request: DeletionRequest = planned

    @property
    def message(self) -> Message:
        """The one to the source with destinations."""
        return self.messages.of(self.request.number)[1]


@pytest.fixture
def told(tmp_path: Path, location_of: LocationOf) -> Iterator[Told]:
    made = Told(tmp_path, location_of("privacy"))
    yield made
    made.store.close()


def test_a_source_without_destinations_is_affected_and_not_told(told: Told) -> None:
    """Its message is closed from the beginning, and not counted; the other one is planned."""
    app, site = told.messages.of(told.request.number)
    assert (app.state, site.state, site.destinations) == ("closed", "planned", ("crm", "mail"))
    assert told.messages.count(told.request.number) == (1, 1)


def test_a_message_goes_again_to_those_who_did_not_take_it(told: Told) -> None:
    """With another messageId, which is the same whenever it is made."""
    told.messages.sent(told.message.id)
    first = told.message
    next_id = told.requests.message_id(told.request, 0, "site", 2)
    again = NextTry(("mail",), next_id, NOW + 1)
    told.messages.settle(first, [Receipt("crm", "delivered", None, NOW)], again)
    second = told.message
    assert (second.state, second.destinations, second.tries) == ("planned", ("mail",), 2)
    assert second.message_id == next_id != first.message_id
    assert told.requests.message_id(told.request, 0, "site", 1) == first.message_id
    assert second.first_ms == NOW


def test_the_operator_is_told_from_the_second_try_on(told: Told) -> None:
    """And of what was given up, for a week; nothing while all goes well."""
    condition = Deletions(told.messages)
    told.messages.sent(told.message.id)
    assert condition.findings(Moment(NOW, {})) == []
    told.messages.settle(told.message, [Receipt("crm", "delivered", None, NOW)], NextTry(("mail",), "m2", NOW))
    (finding,) = condition.findings(Moment(NOW, {}))
    assert (finding.subject, finding.count) == ("mail", 1)
    told.messages.settle(told.message, [Receipt("mail", "not_delivered", "expired", NOW)], None)
    assert [each.subject for each in condition.findings(Moment(NOW, {}))] == ["mail"]
    assert condition.findings(Moment(NOW + 8 * 86_400_000, {})) == []
    assert told.messages.count(told.request.number) == (1, 0)


def test_a_request_forgets_ids_as_soon_as_it_can(told: Told, tmp_path: Path) -> None:
    """Further ids when the events are erased, the id itself when it is done; the count of what was erased stays."""
    number = told.request.number
    (person,) = told.requests.people(number)
    assert (person.identities, person.events) == ({"u1": True}, 4)
    told.requests.clear(number)
    told.requests.wait(told.request, told.requests.erased(number))
    (person,) = told.requests.people(number)
    assert (person.user_id, person.identities, person.identity_count) == ("u1", None, 1)
    told.requests.finish(number)
    assert [each.user_id for each in told.requests.people(number)] == [None]
    assert [each.number for each in told.requests.newest(5, user_id="u1")] == [number]
    assert told.requests.under_way() == []
